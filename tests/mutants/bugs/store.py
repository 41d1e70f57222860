"""Seeded bugs of the stores: appends, retention, databases of agents, views."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace
from tests.mutants.places import sql

__all__ = ["BUGS"]

CHUNK_PACKING = "tests/log/test_chunk_packing.py"
DESTROY = "tests/log/test_destroy.py"
LIGHT_COMMITS = "tests/log/sqlite/test_commit_policy.py"
PENDING_ROWS = "tests/log/sqlite/test_pending_rows.py"
RETENTION = "tests/log/sqlite/test_retention.py"
SQL = "tests/agents/test_sql.py"
STORE = "tests/log/sqlite/test_store.py"

BUGS = [
    Bug(
        "Transaction.append",
        "I-2",
        replace("$batch.first != $before.seq + 1", "$batch.first <= $before.seq"),
        f"{STORE}::TestSqliteLog::test_a_batch_that_does_not_begin_at_the_head_is_refused",
        "a log has holes that no pruning made",
    ),
    Bug(
        "sqlite:_change",
        "I-3",
        replace("(FileNotFoundError, NotADirectoryError)", "FileExistsError"),
        "tests/log/sqlite/test_files.py::test_what_waited_to_be_written_is_refused",
        "what is written to a deleted file counts as stored",
    ),
    Bug(
        "Transaction.append",
        "I-5",
        replace("$batch.epoch != $lease.epoch", "$batch.epoch > $lease.epoch"),
        f"{STORE}::TestSqliteLog::test_an_owner_whose_lease_was_taken_cannot_append",
        "two owners write the same agent",
    ),
    Bug(
        "MemoryLog.destroy",
        "I-5",
        replace("$fresh.epoch = Epoch($gone.epoch + 1)", "$gone"),
        f"{DESTROY}::test_the_name_is_that_of_a_new_agent_and_old_writers_are_fenced[memory]",
        "an old owner writes into the new agent's log",
    ),
    Bug(
        "sql:turn_request",
        "I-6",
        sql("CREATE UNIQUE INDEX turn_request", "CREATE INDEX turn_request"),
        f"{STORE}::TestSqliteLog::test_a_request_is_accepted_once_and_for_ever",
        "the store lets a request be accepted twice",
    ),
    Bug(
        "log:REPLAYED",
        "I-9",
        drop("'attempt.delayed'"),
        "tests/crash/test_delayed_attempts.py::test_dying_at_any_append_delays_no_attempt_twice_and_ends_the_turn_once",
        "a store does not give back that an attempt comes later",
    ),
    Bug(
        "sql:mark_cuts",
        "I-10",
        sql(
            "SELECT before FROM doomed EXCEPT SELECT id FROM doomed",
            "SELECT id FROM doomed EXCEPT SELECT id FROM doomed",
        ),
        f"{RETENTION}::test_every_event_that_stays_can_still_be_reached",
        "pruning takes events along that it should keep",
    ),
    Bug(
        "sql:doom",
        "I-10",
        sql("WHERE o.id NOT IN (", "WHERE 0 NOT IN ("),
        f"{RETENTION}::test_a_state_that_has_a_messages_body_stays",
        "retention takes the body of a message along with an old state",
    ),
    Bug(
        "sqlite:_permanent_events",
        "I-10",
        replace("$kind not in PRUNED", "$kind != 'chunk'"),
        f"{RETENTION}::test_no_body_is_stored_as_a_place_in_a_state",
        "a body lies in an event that does not stay",
    ),
    Bug(
        "Reader._events",
        "I-11",
        never("$found and len(...) > $room"),
        "tests/log/test_pages.py::test_a_page_ends_at_its_size_and_has_at_least_one_event",
        "one slow reader holds as much as the log has",
    ),
    Bug(
        "log:_turns",
        "R-9",
        drop("$turn.generation == $generation"),
        "tests/agents/streams/test_stream_manager.py::test_clearing_empties_the_store_and_leaves_the_state_to_the_caller",
        "what was cleared can still be queried",
    ),
    Bug(
        "Retention._turn_back",
        "R-14",
        always("$place.waiting is None"),
        f"{RETENTION}::test_a_turn_that_ends_late_is_found_by_a_later_sweep",
        "the chunks of a long turn are never pruned",
    ),
    Bug(
        "sql:doom",
        "R-14",
        sql("THEN max(a.state_id, lag(e.id, 1, 0)", "THEN max(0, lag(e.id, 1, 0)"),
        f"{STORE}::TestSqliteLog::test_a_state_that_stood_for_long_goes_when_it_is_replaced",
        "a state that a sweep has passed is kept for ever",
    ),
    Bug(
        "Transaction._erase",
        "R-14",
        drop("self._leases.must_save = True"),
        "tests/log/sqlite/test_destroy.py::test_arrivals_are_never_given_twice",
        "retention passes over events that took the place of deleted ones",
    ),
    Bug(
        "sql:streams_to_erase",
        "R-14",
        sql("AND kind = 'rsm' AND ended_at <= ?2 AND coalesce", "AND kind = 'rsm' AND ?2 > 0 AND coalesce"),
        "tests/log/test_stream_erasing.py::test_only_old_managed_streams_lose_their_chunks_and_each_is_counted_once",
        "streams that are still wanted lose their chunks",
    ),
    Bug(
        "sql:doom",
        "R-14",
        sql("WHERE so_far - events < ?4 AND", "WHERE so_far < ?4 AND"),
        f"{CHUNK_PACKING}::test_retention_takes_rows_whole_and_counts_their_chunks",
        "retention never gets past a large batch",
    ),
    Bug(
        "sqlite:erase_streams",
        "R-14",
        drop("$transaction.write_pending()"),
        f"{RETENTION}::test_a_stream_is_erased_though_its_end_is_in_the_same_transaction",
        "a stream that was erased as it ended is kept for ever",
    ),
    Bug(
        "Lease.default_wake",
        "R-22",
        never("self.running"),
        f"{PENDING_ROWS}::test_that_a_running_turn_is_to_be_gone_on_with_goes_without_saying",
        "a turn that runs is woken twice over, or never",
    ),
    Bug(
        "Transaction._put_wake",
        "R-22",
        replace("NEVER", "None"),
        f"{PENDING_ROWS}::test_an_agent_that_runs_a_turn_may_want_another_time_or_none",
        "an agent is woken for work that it does not want",
    ),
    Bug(
        "sqlite:_why_refused",
        "SQL of an agent stays in its own database",
        never("$base == 'temp' and ($action in _WRITES or $action == sqlite3.SQLITE_ALTER_TABLE)"),
        f"{SQL}::test_a_statement_that_reaches_beyond_the_database_is_refused[delete from messages]",
        "an agent forges what its own log says",
    ),
    Bug(
        "sqlite:_why_refused",
        "SQL of an agent stays in its own database",
        replace("$action in _TRANSACTIONS", "$action < 0"),
        f"{SQL}::test_a_statement_that_reaches_beyond_the_database_is_refused[begin]",
        "a transaction stays open for the next statement",
    ),
    Bug(
        "SqliteAgentDatabases._run_queue",
        "SQL statements run in order",
        replace("$queue.waiting.popleft", "$queue.waiting.pop"),
        f"{SQL}::test_statements_run_in_the_order_in_which_they_were_asked",
        "statements overtake each other",
    ),
    Bug(
        "PendingEvents.put",
        "a cursor is found without walking the log",
        replace("$more + 1 >= $until_mark", "not seq % EVENTS_PER_MARK"),
        f"{CHUNK_PACKING}::test_a_row_ends_at_its_last_seq_and_a_mark_stands_where_one_was_due",
        "a reader of a fast stream walks through all of it",
    ),
    Bug(
        "Transaction.rollback",
        "a stopped task stops no commit",
        drop("self._data_version = None"),
        f"{LIGHT_COMMITS}::test_the_store_goes_on_if_the_loop_is_stopped_while_a_commit_returns",
        "after one Ctrl-C at the wrong moment nothing is written any more, not even how turns ended",
    ),
    Bug(
        "sql:messages",
        "a stored body is read as it was written",
        sql(
            "SELECT substr(CAST(e.body AS BLOB), m.start + 1, m.size)",
            "SELECT substr(CAST(e.body AS BLOB), m.start, m.size)",
        ),
        f"{PENDING_ROWS}::test_a_large_body_that_its_event_has_is_stored_once",
        "a long answer cannot be read",
    ),
    Bug(
        "Reader._walk",
        "damage is reported",
        drop("_count(...) != $entry.seq - $rows[-1][1] + $rows[-1][0] + 1"),
        "tests/log/sqlite/test_queries.py::test_events_that_are_not_in_order_are_reported",
        "a hole in a damaged log is passed over in silence",
    ),
    Bug(
        "Transaction.destroy",
        "destroying takes everything",
        drop("self.write_pending()"),
        f"{DESTROY}::test_what_the_same_transaction_brought_goes_too[sqlite]",
        "events of a destroyed agent come after its end",
    ),
    Bug(
        "sqlite:_unpack_after",
        "packing is invisible",
        replace("$seq > $low", "$seq"),
        f"{CHUNK_PACKING}::test_a_batch_is_stored_in_few_rows_and_read_from_any_cursor",
        "a reader that comes back in the middle of a batch gets its beginning again",
    ),
    Bug(
        "Transaction.take_lease",
        "rows of one transaction agree",
        never("$agent in self._leases.changed"),
        f"{PENDING_ROWS}::test_a_lease_taken_in_the_transaction_of_a_batch_knows_of_it",
        "an agent that is loaded while it writes does not know of its turn",
    ),
    Bug(
        "Transaction.begin",
        "the event loop never waits for the disk",
        replace("$patience != self._busy_seconds", "$patience and $patience != self._busy_seconds"),
        f"{LIGHT_COMMITS}::test_the_loop_goes_on_while_another_program_has_the_file_locked",
        "the event loop stands still while a backup has the file",
    ),
    Bug(
        "AgentDatabase._show",
        "views show the committed log",
        replace("self._copied.get($name) != $version", "$name not in self._copied"),
        f"{SQL}::test_a_view_shows_what_was_committed_before_it_was_asked",
        "a view shows the log as it once was",
    ),
]
