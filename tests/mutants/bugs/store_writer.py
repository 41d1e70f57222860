"""Seeded bugs of how the SQLite store gathers, packs and writes."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, replace, swap
from tests.mutants.places import sql

__all__ = ["BUGS"]

CHUNK_PACKING = "tests/log/test_chunk_packing.py"
COMMIT_POLICY = "tests/log/sqlite/test_commit_policy.py"
PENDING_ROWS = "tests/log/sqlite/test_pending_rows.py"
RECEIPT = "tests/log/test_receipt.py"

BUGS = [
    Bug(
        "WriteConnection.commit",
        "R-27",
        drop("self._overwrite_failed_commit()"),
        "tests/log/sqlite/test_writer.py::test_after_a_failed_commit_something_else_is_committed_over_it",
        "a commit that failed comes back after a crash",
    ),
    Bug(
        "WriteConnection.try_commit",
        "a commit is made once",
        drop("self._rollback(...)"),
        f"{COMMIT_POLICY}::test_a_commit_that_fails_here_is_made_by_the_thread",
        "what a failed commit of the event loop began is committed twice",
    ),
    Bug(
        "WriteConnection.give_up",
        "a restored file is read without the old log",
        drop("$connection.execute('PRAGMA wal_checkpoint(TRUNCATE)')"),
        "tests/log/sqlite/test_files.py::test_no_write_ahead_log_is_left_to_a_file_that_is_restored",
        "a restored file is damaged by the write-ahead log of the one before",
    ),
    Bug(
        "Writer._written_by_thread",
        "a stopped task stops no commit",
        swap("self._is_thread_writing = False", "settle(...)"),
        f"{COMMIT_POLICY}::test_the_store_goes_on_if_the_loop_is_stopped_while_a_commit_is_told",
        "one agent that is stopped at the wrong moment stops the writing of all",
    ),
    Bug(
        "CommitPolicy.is_to_wait",
        "commits are gathered",
        drop("$now - $before > IDLE"),
        f"{COMMIT_POLICY}::test_right_behind_a_commit_a_busy_loop_gathers_what_comes_until_it_has_nothing_else_to_do",
        "a busy server commits twice as often as it needs to",
    ),
    Bug(
        "WriteConnection._count_pages",
        "commits are gathered",
        always("$job.has_rows"),
        f"{COMMIT_POLICY}::test_words_of_many_agents_count_as_the_pages_that_they_fill_together",
        "the log is checkpointed ten times as often as it needs to be, and chunks wait for the disk",
    ),
    Bug(
        "Writer.append",
        "a batch is committed in the tick that decided it",
        drop("self._commit()"),
        f"{COMMIT_POLICY}::test_a_batch_is_committed_while_it_is_appended_unless_that_is_right_behind_a_commit",
        "every chunk waits for another iteration of the loop",
    ),
    Bug(
        "CommitPolicy.is_to_wait",
        "commits are gathered, for a moment",
        replace("self._is_early and is_busy", "is_busy"),
        f"{COMMIT_POLICY}::test_a_loop_that_gathers_writes_when_a_moment_has_passed",
        "on a server that is always busy nothing is ever written",
    ),
    Bug(
        "log:settle",
        "every command is answered",
        drop("asyncio.get_running_loop().call_soon(...)"),
        f"{RECEIPT}::test_the_others_are_told_even_if_one_stops_the_process",
        "a caller that waits for a commit when the process is stopped waits for ever",
    ),
    Bug(
        "log:_run",
        "packing is invisible",
        replace("number != index", "number < first"),
        f"{CHUNK_PACKING}::test_what_is_packed_comes_out_byte_for_byte",
        "a chunk gets the place of the one that is missing before it",
    ),
    Bug(
        "log:_run",
        "packing is invisible",
        drop("$stem = _BODY + _stem(...)"),
        f"{CHUNK_PACKING}::test_any_three_chunks_in_a_row_come_out_as_they_went_in",
        "a delta is put into another chunk than it came in",
    ),
    Bug(
        "log:_stem",
        "packing is invisible",
        drop("b'\"' in $rest[:-2].replace(...)"),
        f"{CHUNK_PACKING}::test_views_show_a_chunk_as_it_came_whatever_the_one_before_had_besides",
        "a tool is shown what stood behind another chunk's text",
    ),
    Bug(
        "log:_cut",
        "packing is invisible",
        drop("$body[-2:-1] == b'}'"),
        f"{CHUNK_PACKING}::test_what_is_packed_comes_out_byte_for_byte",
        "a transient chunk is stored as one that stays",
    ),
    Bug(
        "sql:cf_ai_chat_stream_chunks",
        "packing is invisible",
        sql("CASE WHEN e.more = 0 OR c.type <> 'text' THEN", "CASE WHEN c.type <> 'text' THEN"),
        f"{CHUNK_PACKING}::test_views_show_what_came_whatever_it_looks_like",
        "the chunks of a bare stream are missing in the views",
    ),
    Bug(
        "PendingRows.put_turn",
        "rows of one transaction agree",
        drop("self._write_turns()"),
        f"{PENDING_ROWS}::test_two_batches_of_one_agent_in_a_transaction_say_what_they_would_say_in_two",
        "an answer is read from where its end was written",
    ),
    Bug(
        "PendingRows.remove_messages",
        "rows of one transaction agree",
        drop("self._messages.pop(...)"),
        f"{PENDING_ROWS}::test_what_is_removed_and_put_again_in_a_transaction_is_there",
        "a message that was deleted as it was written comes back",
    ),
    Bug(
        "log:settle",
        "spans are nested as calls are",
        replace("$context.run($call, $receipt)", "$call($receipt)"),
        f"{RECEIPT}::test_callbacks_run_at_once_in_order_and_in_their_own_context",
        "a task that an agent starts is a part of another request that was committed with it",
    ),
    Bug(
        "CommitPolicy.place",
        "the event loop never waits for the disk",
        replace("is_light($jobs)", "$jobs"),
        f"{COMMIT_POLICY}::test_what_is_large_is_the_threads",
        "the event loop stands still while a megabyte is written",
    ),
    Bug(
        "Checkpoints.run",
        "the event loop never waits for the disk",
        replace("self._pages, self.is_running = (0, True)", "self._pages = 0"),
        f"{COMMIT_POLICY}::test_commits_do_not_wait_for_the_disk_during_a_checkpoint",
        "chunks wait for the disk during a checkpoint",
    ),
    Bug(
        "Writer._queue",
        "commits are gathered",
        replace("self._commit_soon()", "self._commit_due()"),
        f"{COMMIT_POLICY}::test_leases_that_are_taken_in_one_iteration_are_one_transaction",
        "loading many agents at once makes a commit for each",
    ),
    Bug(
        "sqlite:is_light",
        "the event loop never waits for the disk",
        drop("len(...) >= CROWD and $size <= CROWDED"),
        f"{COMMIT_POLICY}::test_a_crowd_that_writes_at_once_is_the_loops_if_it_is_not_too_much",
        "a loop that is behind takes turns with a thread",
    ),
    Bug(
        "PermanentEvent.find",
        "the event loop never waits for the disk",
        replace("len(self.body)", "self._seen"),
        f"{PENDING_ROWS}::test_an_event_is_looked_through_once_however_many_bodies_it_lacks",
        "a thousand long messages stop all conversations",
    ),
    Bug(
        "Checkpoints.run",
        "the write-ahead log is bounded",
        replace("with $seat: ...", "return"),
        f"{COMMIT_POLICY}::test_the_writers_wait_only_for_the_end_of_a_very_long_log",
        "the write-ahead log of a busy server grows without end",
    ),
    Bug(
        "WriterThread._run",
        "every command is answered",
        drop("self._refuse_all(...)"),
        "tests/log/sqlite/test_writer.py::test_a_thread_that_breaks_leaves_no_caller_waiting_and_releases_the_file",
        "after a mistake of ours in the writer's thread every agent waits for ever",
    ),
]
