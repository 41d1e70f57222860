"""Seeded bugs around the core: in the messages below it, and in the runtime that runs it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FOLD = "tests/messages/test_fold.py"
NORMALISE = "tests/messages/test_normaliser.py"
CALLS = "tests/messages/test_tool_calls.py"
LIFECYCLE = "tests/codec/test_lifecycle.py"
JOIN = "tests/client/protocol/test_late_join.py"
COMPACT = "tests/codec/test_compact.py"
BAD = "tests/runtime/test_bad_situations.py"
LIFETIMES = "tests/runtime/test_lifetimes.py"
READERS = "tests/runtime/test_readers.py"
CHAT = "tests/wire/test_chat.py"
LEFT = "tests/wire/test_left_branches.py"

MESSAGES = [
    Mutant(
        "messages/fold.py",
        "        parts = [dict(part) for part in self._parts]\n        return UIMessage",
        "        parts = list(self._parts)\n        return UIMessage",
        f"{FOLD}::test_a_snapshot_never_changes_and_never_disturbs_the_fold",
        "a message that was handed out changes afterwards",
    ),
    Mutant(
        "messages/normaliser.py",
        "self._used.add((family, ours))",
        "pass",
        f"{NORMALISE}::test_an_id_used_twice_in_a_step_is_renamed",
        "two parts of a step share an id and run into each other",
    ),
    Mutant(
        "messages/normaliser.py",
        'self._suffix = f"~{len(parts)}" if parts else ""',
        'self._suffix = ""',
        f"{NORMALISE}::test_a_second_attempt_has_no_start_and_other_ids",
        "a second attempt writes into the parts of the first",
    ),
    Mutant(
        "messages/tool_call_tracker.py",
        "frozenset({_State.REFUSED, _State.CLOSED})",
        "frozenset({_State.REFUSED})",
        f"{NORMALISE}::test_a_denied_call_never_gets_an_output",
        "a call that was denied gets an output after all",
    ),
    Mutant(
        "messages/tool_calls.py",
        "if state not in _TAKES_APPROVAL:",
        "if state is None:",
        f"{CALLS}::test_the_first_answer_wins",
        "the second answer to a question replaces the first",
    ),
]

CODEC = [
    Mutant(
        "client/protocol/late_join.py",
        "self._tracker.reset_phase(self._scope, _START_STEP)",
        "pass",
        f"{JOIN}::test_after_the_end_of_a_step_content_needs_a_new_one",
        "a late reader of a second step gets content without a step",
    ),
    Mutant(
        "codec/compact.py",
        "return bool(before[name] == chunk[name])",
        "return True",
        f"{COMPACT}::test_a_compacted_rest_behind_any_cursor_folds_like_the_whole",
        "compacting joins the deltas of different parts (I-10)",
    ),
    Mutant(
        "codec/encode.py",
        " and not (is_replay and is_settled(part))",
        "",
        f"{COMPACT}::test_an_answered_approval_is_left_out_of_a_replay_and_an_open_one_is_not",
        "a replay asks a question that was already answered (R-2)",
    ),
]

RUNTIME = [
    Mutant(
        "runtime/actor.py",
        "        begun = self._store.append(batch)  # commit …\n",
        "        self.tail.publish(pending.committed)\n        begun = self._store.append(batch)\n",
        f"{BAD}::test_a_full_disk_loses_nothing_that_was_seen_and_the_turn_goes_on_when_there_is_space",
        "clients see what a crash takes back (I-3)",
    ),
    Mutant(
        "runtime/actor.py",
        "wake = UNCHANGED if pending.work is None else self._changed_wake(pending.work)",
        "wake = UNCHANGED",
        f"{LIFETIMES}::test_open_turns_are_picked_up_at_start_although_no_client_is_there",
        "an open turn is forgotten until somebody connects (I-12)",
    ),
    Mutant(
        "runtime/reconciler.py",
        "recovered=turn in (self._inherited or ())",
        "recovered=False",
        f"{LIFETIMES}::test_a_response_hook_that_was_cut_off_is_called_again_as_recovered",
        "a hook that is called again does not know that it is",
    ),
    Mutant(
        "runtime/reconciler.py",
        "return phase is Phase.SERVING or (",
        "return True or (",
        f"{LIFETIMES}::test_shutdown_lets_running_turns_finish_and_starts_no_other",
        "a server that shuts down starts new turns (R-19)",
    ),
    Mutant(
        "runtime/directory.py",
        "if found is None or found.actor.tail.closed:",
        "if found is None:",
        f"{BAD}::test_asking_while_the_disk_is_full_is_refused_with_the_reason_and_asking_again_works",
        "a client is handed an actor that has just died (R-27)",
    ),
    Mutant(
        "runtime/outbox.py",
        "if self.direct and self.direct[0][0] <= self._subscription.cursor:",
        "if self.direct:",
        f"{READERS}::test_a_direct_frame_never_overtakes_what_was_committed_before_it",
        "an answer overtakes the event that it followed (B5)",
    ),
    Mutant(
        "runtime/tail.py",
        "        if skip < 0:\n            return None\n",
        "        skip = max(skip, 0)\n",
        f"{READERS}::test_a_tail_forgets_the_oldest_and_says_so",
        "a slow reader skips what memory has forgotten (I-11)",
    ),
]

WIRE = [
    Mutant(
        "wire/handshake.py",
        "        is_awaited, self.is_awaiting = self.is_awaiting, False",
        "        is_awaited = self.is_awaiting",
        "tests/wire/test_probes.py::test_a_probe_counts_for_one_stream",
        "a page that was offered a stream shows its message twice",
    ),
    Mutant(
        "core/replay.py",
        'in ("output-available", "output-error") and part.get("approval") is None',
        'is not None or part.get("approval") is None',
        "tests/server/test_websocket.py::test_a_continuation_of_an_approved_call_is_replayed_chunk_by_chunk",
        "an answer after an approval has its first parts twice",
    ),
    Mutant(
        "wire/left_branches.py",
        "        return (known.is_told or known.is_joined) and not",
        "        return False and not",
        f"{LEFT}::test_a_client_that_was_told_the_beginning_is_told_the_rest_and_then_the_new_branch",
        "the old answer and the new one stand on one page",
    ),
    Mutant(
        "wire/left_branches.py",
        "            each.is_hidden = True\n        return",
        "            pass\n        return",
        f"{LEFT}::test_a_client_that_watched_and_asks_for_another_answer_forgets_the_old_one_at_once",
        "the old answer comes back to the page that asked for another",
    ),
    Mutant(
        "wire/left_branches.py",
        "[each for each in followed if not each.is_joined and each.origin != self._socket]",
        "list(followed)",
        f"{LEFT}::test_a_client_that_reads_the_old_answer_as_its_own_and_asks_for_another_is_told_the_rest",
        "asking for another answer is an error on the page",
    ),
    Mutant(
        "wire/chat.py",
        "        if known.is_passed_over or self._handshake.is_offered(event.turn):",
        "        if known.is_passed_over:",
        f"{CHAT}::test_a_probe_while_a_turn_streams_is_offered_it_and_gets_nothing_of_it_until_it_acknowledges",
        "a client gets live chunks and then the same ones again",
    ),
    Mutant(
        "wire/chat.py",
        "        if replay.outcome is Outcome.ERROR:\n            sent.append(complete)",
        "        if replay.outcome is Outcome.ERROR:\n            sent = []",
        f"{CHAT}::test_a_late_acknowledgement_after_an_error_gets_the_chunks_and_then_the_error_in_one_frame",
        "who comes back after an error does not see what was said before it",
    ),
    Mutant(
        "wire/handshake.py",
        "last is not None and (last.outcome is Outcome.ERROR or",
        "last is not None and (False or",
        f"{CHAT}::test_a_probe_after_an_error_is_offered_the_failed_turn",
        "who was away during an error is told that nothing happened",
    ),
]

STORE = "tests/log/sqlite/test_store.py::TestSqliteLog"
RETENTION = "tests/log/sqlite/test_retention.py"

LOG = [
    Mutant(
        "log/sqlite/transaction.py",
        "batch.epoch != lease.epoch",
        "batch.epoch > lease.epoch",
        f"{STORE}::test_an_owner_whose_lease_was_taken_cannot_append",
        "two owners write the same agent (I-5)",
    ),
    Mutant(
        "log/sqlite/transaction.py",
        "if batch.first != lease.head + 1:",
        "if batch.first <= lease.head:",
        f"{STORE}::test_a_batch_that_does_not_begin_at_the_head_is_refused",
        "a log may have holes that nobody pruned (I-2)",
    ),
    Mutant(
        "log/sqlite/sql/migrations/0001_log.sql",
        "CREATE UNIQUE INDEX turn_request",
        "CREATE INDEX turn_request",
        f"{STORE}::test_a_request_is_accepted_once_and_for_ever",
        "the store lets a request be accepted twice (I-6)",
    ),
    Mutant(
        "log/sqlite/sql/queries.sql",
        "SELECT before FROM doomed EXCEPT SELECT id FROM doomed",
        "SELECT id FROM doomed EXCEPT SELECT id FROM doomed",
        f"{RETENTION}::test_every_event_that_stays_can_still_be_reached",
        "pruning takes events along that it should keep (I-10)",
    ),
    Mutant(
        "log/sqlite/retention.py",
        "begin = place.cursor if place.waiting is None else place.waiting - 1",
        "begin = place.cursor",
        f"{RETENTION}::test_a_turn_that_ends_late_is_found_by_a_later_sweep",
        "the chunks of a long turn are never pruned",
    ),
    Mutant(
        "log/sqlite/sql/queries.sql",
        "THEN max(a.state_id, lag(e.id, 1, 0)",
        "THEN max(0, lag(e.id, 1, 0)",
        f"{STORE}::test_a_state_that_stood_for_long_goes_when_it_is_replaced",
        "a state that a sweep has passed is kept for ever",
    ),
    Mutant(
        "log/sqlite/sql/queries.sql",
        "    WHERE o.id NOT IN (",
        "    WHERE 0 NOT IN (",
        f"{RETENTION}::test_a_state_that_has_a_messages_body_stays",
        "retention takes the body of a message along with an old state (I-10)",
    ),
    Mutant(
        "log/sqlite/transaction.py",
        "                if kind not in PRUNED:",
        '                if kind != "chunk":',
        f"{RETENTION}::test_no_body_is_stored_as_a_place_in_a_state",
        "a body lies in an event that does not stay",
    ),
    Mutant(
        "log/sqlite/files.py",
        "    except (FileNotFoundError, NotADirectoryError):\n        return",
        "    except FileExistsError:\n        return",
        "tests/log/sqlite/test_files.py::test_what_waited_to_be_written_is_refused",
        "what is written to a deleted file counts as stored (I-3)",
    ),
    Mutant(
        "log/sqlite/writer.py",
        '            self._desk.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")\n        except',
        "            pass\n        except",
        "tests/log/sqlite/test_files.py::test_no_write_ahead_log_is_left_to_a_file_that_is_restored",
        "a restored file is damaged by the log of the one before",
    ),
    Mutant(
        "log/sqlite/writer.py",
        "            self._seal()\n",
        "",
        "tests/log/sqlite/test_writer.py::test_after_a_failed_commit_something_else_is_committed_over_it",
        "a commit that failed comes back after a crash",
    ),
]
