"""Bugs that what is done for speed could have: what is remembered, what travels together, who writes when."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["SWIFT"]

REMEMBERED = (
    "tests/core/test_invariants.py"
    "::test_the_path_that_is_remembered_is_the_path_that_is_walked_and_no_change_of_it_goes_unnoticed"
)
STEERING = "tests/agents/test_steering.py"
AGREEMENT, VIEW = "tests/core/test_agreement.py", "tests/wire/test_chat.py"
GARBAGE = "tests/server/test_garbage.py"
PACKS = "tests/log/sqlite/test_packs.py"
LIGHT = "tests/log/sqlite/test_light_commits.py"
SHEET = "tests/log/sqlite/test_sheet.py"

SWIFT = [
    Mutant(
        "core/evolve.py",
        "def _removed(state: State, event: MessagesRemoved) -> None:\n    state.path = ()\n",
        "def _removed(state: State, event: MessagesRemoved) -> None:\n",
        REMEMBERED,
        "a path is remembered that leads through what was removed",
    ),
    Mutant(
        "core/evolve.py",
        "frozenset({AttemptStarted,",
        "frozenset({MessageEnded, AttemptStarted,",
        REMEMBERED,
        "the end of an answer does not reach the transcript",
    ),
    Mutant(
        "core/evolve.py",
        "        state.hooks_due.add(turn.id)\n",
        "        pass\n",
        REMEMBERED,
        "a hook that is due is never called",
    ),
    Mutant(
        "wire/chat.py",
        "        self._flowing = None\n        match event:",
        "        match event:",
        "tests/wire/test_recovering.py::test_who_asked_is_told_like_everybody_else",
        "a stream flows on past what happened to its turn",
    ),
    Mutant(
        "runtime/mailbox.py",
        "is Emit and waiting.turn == turn and waiting.attempt == attempt:",
        "is Emit and waiting.turn == turn:",
        "tests/runtime/test_mailbox.py::test_chunks_never_pass_what_came_between_them",
        "chunks of a new attempt are taken for those of the old one",
    ),
    Mutant(
        "runtime/mailbox.py",
        "            if len(waiting.chunks) >= self._capacity:\n                return False\n",
        "",
        "tests/runtime/test_mailbox.py::test_there_is_room_for_so_many_chunks_and_then_again_when_some_were_taken",
        "a runner that is faster than the disk fills the memory",
    ),
    Mutant(
        "core/accept.py",
        'if rules.policy.name != "steer" or turn.accepted.trusted:',
        'if rules.policy.name != "steer":',
        f"{STEERING}::test_a_turn_that_our_own_code_waits_for_is_not_cut_short",
        "who waits for an answer in code gets half of it",
    ),
    Mutant(
        "core/tree.py",
        "return known if known is not None and known.revision == state.revision and known.leaf == state.leaf else None",
        "return known",
        REMEMBERED,
        "what is shown is what was shown at first",
    ),
    Mutant(
        "core/tree.py",
        "return shown[:-1] if shown and shown[-1][0] == path[-1] else shown",
        "return shown",
        REMEMBERED,
        "a model reads its own half answer as part of the question",
    ),
    Mutant(
        "runtime/runner.py",
        "LONG_BREATH)\n                await asyncio.sleep(0)\n",
        "LONG_BREATH)\n",
        "tests/runtime/test_turns.py::test_an_answer_that_waits_for_nothing_keeps_nobody_waiting",
        "an answer out of a cache stops all other conversations",
    ),
    Mutant(
        "log/sqlite/writer.py",
        "        except BaseException as exc:\n            self._take_back(scribe)\n",
        "        except BaseException as exc:\n",
        f"{LIGHT}::test_a_commit_that_fails_here_is_made_by_the_thread",
        "what a failed commit of the loop began is committed twice",
    ),
    Mutant(
        "log/sqlite/writer.py",
        "or sum(job.size for job in jobs) > LIGHT:",
        "or not jobs:",
        f"{LIGHT}::test_what_is_large_is_the_threads",
        "the loop stands still while a megabyte is written",
    ),
    Mutant(
        "log/sqlite/scribe.py",
        "        if patience != self._patience:",
        "        if patience and patience != self._patience:",
        f"{LIGHT}::test_the_loop_goes_on_while_another_program_has_the_file_locked",
        "the loop stands still while a backup has the file",
    ),
    Mutant(
        "log/sqlite/checkpoints.py",
        "            with seat:\n                self._carry()\n",
        "            return\n",
        f"{LIGHT}::test_the_writers_wait_only_for_the_end_of_a_very_long_log",
        "the write-ahead log of a busy server grows without end",
    ),
    Mutant(
        "server/gathering.py",
        "        if size < 126:",
        "        if size < 127:",
        "tests/server/test_gathering.py::test_frames_are_those_that_any_client_reads",
        "a frame of 126 bytes breaks its connection",
    ),
    Mutant(
        "server/gathering.py",
        "    def close(self) -> None:\n        self.flush()\n",
        "    def close(self) -> None:\n",
        "tests/server/test_gathering.py::test_what_was_kept_back_is_written_before_the_end",
        "the last frames are lost when a socket is closed",
    ),
    Mutant(
        "log/sqlite/packs.py",
        "other != head or number != index:",
        "other != head or number < first:",
        f"{PACKS}::test_what_is_packed_comes_out_byte_for_byte",
        "a chunk gets the place of the one that is missing before it",
    ),
    Mutant(
        "log/sqlite/packs.py",
        "            stem = _BODY + _stem(said)\n",
        "",
        f"{PACKS}::test_any_three_chunks_in_a_row_come_out_as_they_went_in",
        "a word is put into another chunk than it came in",
    ),
    Mutant(
        "log/sqlite/packs.py",
        """ or b'"' in rest[:-2].replace(b'\\\\"', b"")""",
        "",
        f"{PACKS}::test_views_show_a_chunk_as_it_came_whatever_the_one_before_had_besides",
        "a tool is shown what stood behind another chunk's text",
    ),
    Mutant(
        "log/sqlite/packs.py",
        """ and body[-2:-1] == b"}" and""",
        " and",
        f"{PACKS}::test_what_is_packed_comes_out_byte_for_byte",
        "a passing chunk is stored as one that stays",
    ),
    Mutant(
        "log/sqlite/scribe.py",
        "if more + 1 >= unmarked or",
        "if not seq % MARK_FAR or",
        f"{PACKS}::test_a_row_ends_at_its_last_seq_and_a_mark_stands_where_one_was_due",
        "a reader of a fast stream walks through all of it",
    ),
    Mutant(
        "log/sqlite/reads.py",
        "        if seq > low:\n            yield",
        "        if seq:\n            yield",
        f"{PACKS}::test_a_batch_is_stored_in_few_rows_and_read_from_any_cursor",
        "who comes back in the middle of a batch hears its beginning again",
    ),
    Mutant(
        "log/sqlite/sql/queries.sql",
        "WHERE so_far - chunks < ?4",
        "WHERE so_far < ?4",
        f"{PACKS}::test_retention_takes_rows_whole_and_counts_their_chunks",
        "retention never gets past a large batch",
    ),
    Mutant(
        "log/sqlite/sql/migrations/0003_packs.sql",
        "CASE WHEN e.more = 0 OR c.type <> 'text' THEN",
        "CASE WHEN c.type <> 'text' THEN",
        f"{PACKS}::test_views_show_what_came_whatever_it_looks_like",
        "the chunks of a bare stream are missing in the views",
    ),
    Mutant(
        "log/sqlite/erasing.py",
        "    scribe.write_events()\n",
        "",
        "tests/log/sqlite/test_retention.py::test_a_stream_is_erased_though_its_end_is_in_the_same_transaction",
        "a stream that was erased as it ended is kept for ever",
    ),
    Mutant(
        "core/tree.py",
        "    before.ids.add(event.message_id)\n",
        "",
        f"{AGREEMENT}::test_what_is_remembered_of_the_branch_is_what_a_walk_finds",
        "an answer that is told again becomes a second message",
    ),
    Mutant(
        "core/tree.py",
        "or parent != before.leaf:",
        "or not before.shown:",
        f"{AGREEMENT}::test_what_is_remembered_of_the_branch_is_what_a_walk_finds",
        "who edits a question sees the old branch and the new one in a row",
    ),
    Mutant(
        "messages/normalise.py",
        "if part != self._stem[0]:",
        "if not self._stem[0]:",
        "tests/messages/test_normalise.py::test_text_that_flows_is_what_it_would_have_been_step_by_step",
        "text after a tool call goes on with the part before it",
    ),
    Mutant(
        "runtime/nudge.py",
        "if self.at_once is None or not self.at_once():",
        "if self.at_once is None:",
        "tests/runtime/test_nudge.py::test_what_cannot_be_done_at_once_wakes_the_task",
        "a client that fell behind is told nothing any more",
    ),
    Mutant(
        "server/gathering.py",
        "        return texts[first:]\n",
        "        return []\n",
        "tests/server/test_gathering.py::test_frames_that_there_is_no_room_for_are_given_back",
        "a client that reads slowly misses words",
    ),
    Mutant(
        "wire/chat.py",
        "self._is_doubted or (is_stale and not is_brief)",
        "self._is_doubted or is_stale",
        f"{VIEW}::test_who_always_sends_only_what_is_new_is_not_told_the_conversation_each_time",
        "a long conversation is sent again with every answer",
    ),
    Mutant(
        "wire/chat.py",
        'any(each["id"] == proof.answer for each in reversed(messages))',
        "bool(messages)",
        f"{VIEW}::test_who_asks_without_the_last_answer_may_not_have_read_the_transcript_before_it",
        "a question that a late transcript has wiped from a screen stays away",
    ),
    Mutant(
        "wire/client.py",
        "self._held = None if self._held is None else []",
        "pass",
        "tests/wire/test_client.py::test_what_somebody_else_cleared_while_a_clear_of_ours_was_on_its_way_stays_cleared",
        "what two cleared at a time comes back on one screen",
    ),
    Mutant(
        "agents/turn.py",
        "        self._calls_made = 0\n",
        "        self._calls_made = 0\n        _ = self._box\n",
        f"{GARBAGE}::test_a_turn_and_a_socket_that_are_over_leave_nothing_for_the_collector",
        "every turn that ends waits for the collector, with all that it held",
    ),
    Mutant(
        "server/websocket.py",
        "            del reading, writing, over, done\n",
        "",
        f"{GARBAGE}::test_a_turn_and_a_socket_that_are_over_leave_nothing_for_the_collector",
        "every socket that closes waits for the collector, with all that it held",
    ),
    Mutant(
        "server/gathering.py",
        "        self.flush()\n        self._transport.write(data)\n",
        "        self._transport.write(data)\n",
        "tests/server/test_gathering.py::test_what_is_written_now_comes_behind_what_was_kept_back",
        "a client hears the answer before the greeting",
    ),
    Mutant(
        "log/sqlite/sheet.py",
        "            self._write_turns()  # what is known of its chunks comes from both rows\n",
        "            pass\n",
        f"{SHEET}::test_two_batches_of_one_agent_in_a_transaction_say_what_they_would_say_in_two",
        "an answer is read from where its end was written",
    ),
    Mutant(
        "log/sqlite/sheet.py",
        "            self._messages.pop((key, node), None)\n",
        "            pass\n",
        f"{SHEET}::test_what_is_removed_and_put_again_in_a_transaction_is_there",
        "a message that was deleted as it was written comes back",
    ),
    Mutant(
        "log/sqlite/scribe.py",
        "        return 0 if self.running else None\n",
        "        return None\n",
        f"{SHEET}::test_that_a_running_turn_is_to_be_gone_on_with_goes_without_saying",
        "a turn that runs is woken twice over, or never",
    ),
    Mutant(
        "log/sqlite/scribe.py",
        "NEVER if wake is None else Millis(wake)",
        "None if wake is None else Millis(wake)",
        f"{SHEET}::test_an_agent_that_runs_a_turn_may_want_another_time_or_none",
        "an agent is woken for what it does not want to be woken for",
    ),
    Mutant(
        "log/sqlite/scribe.py",
        "        if agent in self._touched:\n            self.write_events()",
        "        if False:\n            self.write_events()",
        f"{SHEET}::test_a_lease_taken_in_the_transaction_of_a_batch_knows_of_it",
        "who loads an agent as it writes does not know of its turn",
    ),
    Mutant(
        "log/sqlite/sql/queries.sql",
        "SELECT substr(CAST(e.body AS BLOB), m.start + 1, m.size)",
        "SELECT substr(CAST(e.body AS BLOB), m.start, m.size)",
        f"{SHEET}::test_a_large_body_that_its_event_has_is_stored_once",
        "a long answer cannot be read",
    ),
    Mutant(
        "log/sqlite/reads.py",
        "rows[0][1] != entry.seq or _count(rows) != entry.seq - rows[-1][1] + rows[-1][0] + 1",
        "rows[0][1] != entry.seq",
        "tests/log/sqlite/test_reads.py::test_events_that_are_not_in_order_are_reported",
        "a hole in a damaged log is passed over in silence",
    ),
    Mutant(
        "log/sqlite/writer.py",
        "        elif not job.is_patient and not self._is_hurried:\n",
        "        elif not job.is_patient and not self._waiting:\n",
        f"{LIGHT}::test_words_do_not_wait_behind_what_waits_for_others",
        "somebody's next words wait for others to begin",
    ),
]
