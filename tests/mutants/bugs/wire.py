"""Seeded bugs of frames, the handshake and replays, and of the Python client's protocol."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import drop, never, replace

__all__ = ["BUGS"]

CHAT = "tests/wire/test_chat_view.py"
LEFT_BRANCHES = "tests/wire/test_inactive_branches.py"

BUGS = [
    Bug(
        "ChatView.replayed",
        "B2",
        replace("$sent.append(...)", "$sent = []"),
        f"{CHAT}::test_a_late_acknowledgement_after_an_error_gets_the_chunks_and_then_the_error_in_one_frame",
        "a client that comes back after an error does not see the chunks before it",
    ),
    Bug(
        "ResumeHandshake.probed",
        "B2",
        never("$last.outcome is Outcome.ERROR"),
        f"{CHAT}::test_a_probe_after_an_error_is_offered_the_failed_turn",
        "a client that was away during an error is told that nothing happened",
    ),
    Bug(
        "ChatView._message_ended",
        "R-3",
        replace("self._transcript.updated(...)", "[]"),
        "tests/server/test_late_calls.py::test_a_late_call_is_told_as_an_updated_message_and_as_nothing_else[second]",
        "clients do not see what became of a late call before a reload",
    ),
    Bug(
        "InactiveBranches.follows",
        "R-5",
        never("$known.is_told or $known.is_joined"),
        f"{LEFT_BRANCHES}::test_a_client_that_was_told_the_beginning_is_told_the_rest_and_then_the_new_branch",
        "the old answer and the new one stand on one page",
    ),
    Bug(
        "InactiveBranches.forget",
        "R-5",
        drop("$each.is_hidden = True"),
        f"{LEFT_BRANCHES}::test_a_client_that_watched_and_asks_for_another_answer_forgets_the_old_one_at_once",
        "the old answer comes back to the page that asked for another",
    ),
    Bug(
        "InactiveBranches.forget",
        "R-5",
        replace("[$each for $each in $followed if ...]", "list($followed)"),
        f"{LEFT_BRANCHES}::test_a_client_that_reads_the_old_answer_as_its_own_and_asks_for_another_is_told_the_rest",
        "asking for another answer is an error on the page",
    ),
    Bug(
        "ResumeHandshake.acknowledged",
        "R-11",
        replace("$is_awaited, self.is_awaiting = (self.is_awaiting, False)", "$is_awaited = self.is_awaiting"),
        "tests/wire/test_probes.py::test_a_probe_counts_for_one_stream",
        "a page that was offered a stream shows its message twice",
    ),
    Bug(
        "ChatView._chunk",
        "R-11",
        replace("$known.is_passed_over or self._handshake.is_offered(...)", "$known.is_passed_over"),
        f"{CHAT}::test_a_probe_while_a_turn_streams_is_offered_it_and_gets_nothing_of_it_until_it_acknowledges",
        "a client gets live chunks and then the same ones again",
    ),
    Bug(
        "wire:chunk_frame",
        "R-18",
        replace("$chunk.index + 1", "$chunk.index"),
        "tests/wire/test_agent_tool_frames.py::test_a_chunk_is_numbered_by_its_index_and_passed_on_as_it_is",
        "the first chunk has the number of the start",
    ),
    Bug(
        "ManagedStreamView._happened",
        "R-20",
        never("isinstance($event, _Conversation)"),
        "tests/agents/streams/test_stream_manager_sockets.py::test_an_agent_that_does_not_chat_says_nothing_of_a_chat",
        "a page that knows no chat is told of one",
    ),
    Bug(
        "ChatView._event",
        "R-21",
        replace("[] if self._turns.is_mine($origin) else $frames", "$frames"),
        "tests/server/test_agents.py::test_a_state_goes_to_all_clients_except_its_sender_and_to_the_hook",
        "the client that sets a state is sent its own state",
    ),
    Bug(
        "wire:_request",
        "R-32",
        never("($problem := id_problem(...)) is not None"),
        "tests/server/test_long_ids.py::test_a_request_with_a_long_id_is_refused_under_the_beginning_of_it",
        "every chunk of an answer carries megabytes of id",
    ),
    Bug(
        "wire:_PRIVATE",
        "R-35",
        drop("'principal'"),
        "tests/server/test_permissions.py::test_nothing_of_a_principal_reaches_clients_through_the_log",
        "every reader of a conversation reads the claims of all principals that asked in it",
    ),
    Bug(
        "ChatView._accepted",
        "R-37",
        replace("_as_stored(...)", "[]"),
        f"{CHAT}::test_the_asking_client_gets_its_stored_question_chunks_and_end",
        "a client never has the author and time of its own question",
    ),
    Bug(
        "ClientList.accepted",
        "a client shows the stored conversation",
        drop("self.doubt(...)"),
        f"{CHAT}::test_a_question_while_an_answer_ends_gets_the_conversation_after_its_own",
        "two questions and their answers stand on a screen in another order than in the log",
    ),
    Bug(
        "ClientList.asks",
        "a client shows the stored conversation",
        replace("is_stale and not is_brief", "is_stale"),
        f"{CHAT}::test_a_client_that_sends_only_new_messages_gets_no_conversation_each_time",
        "a long conversation is sent again with every answer",
    ),
    Bug(
        "ClientList.asks",
        "a client shows the stored conversation",
        replace("any(...)", "bool(messages)"),
        f"{CHAT}::test_a_client_without_the_last_answer_may_not_have_read_the_transcript",
        "a question that a late transcript has wiped from a screen stays away",
    ),
    Bug(
        "ChatProtocol._cleared_elsewhere",
        "a client shows the stored conversation",
        drop("self._clear.transcript = []"),
        "tests/client/protocol/test_chat.py::test_a_clear_of_another_client_during_our_own_clear_holds",
        "messages that two clients clear at a time come back on one screen",
    ),
    Bug(
        "LateJoin._boundary",
        "a late reader gets a valid stream",
        drop("self._tracker.reset_phase(...)"),
        "tests/client/protocol/test_late_join.py::test_after_the_end_of_a_step_content_needs_a_new_one",
        "a late reader of a second step gets content without a step",
    ),
    Bug(
        "ChatView._event",
        "frames follow the order of the log",
        drop("self._flowing = None"),
        "tests/wire/test_recovering.py::test_the_asking_client_gets_the_recovery_like_all_others",
        "a stream flows on past the events of its turn",
    ),
]
