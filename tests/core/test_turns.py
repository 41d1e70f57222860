"""A turn from its first attempt to its end: begin, cancel, clear, finish (R-9, R-17, R-23, R-25, R-28, I-7, I-8)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from everyword.core.commands import MarkHookDone
from everyword.core.state import RECENT_TURNS
from everyword.core.transitions import TurnStatus
from everyword.errors import Rejected, StaleAttempt, UnknownTurn
from everyword.events import (
    AttemptStarted,
    CancelRequested,
    ChatCleared,
    Chunk,
    MessageEnded,
    MessagesRemoved,
    Outcome,
    TurnEnded,
)
from everyword.ids import TurnId
from tests.core.histories import user
from tests.core.stage import (
    Stage,
    call,
    chunks_of,
    ended_message,
    endings,
    kinds,
    open_text,
    pick,
    stage,
    text,
    the,
)


def begun(**rules: Any) -> Stage:
    """u1 (node 1) is being answered by turn 1 (node 2)."""
    told = stage(**rules)
    told.ask("r1", user("u1"))
    told.begin(1)
    return told


def status(told: Stage, turn: int = 1) -> TurnStatus:
    found = told.state.find(TurnId(turn))
    assert found is not None
    return found.status


# -- attempts ----------------------------------------------------------------------------------------------


def test_the_first_attempt_has_number_one_and_the_cause_first() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    assert told.begin(1, "crash") == [AttemptStarted(TurnId(1), 1, "first")]  # type: ignore[arg-type]
    assert status(told) is TurnStatus.RUNNING


@pytest.mark.parametrize("cause", ["crash", "retry"])
def test_a_later_attempt_has_the_next_number_and_its_cause(cause: Any) -> None:
    told = begun()
    assert told.begin(1, cause) == [AttemptStarted(TurnId(1), 2, cause)]  # type: ignore[arg-type]


def test_a_turn_that_is_not_open_cannot_begin() -> None:
    told = begun()
    told.finish(1)
    for turn in (1, 2):
        with pytest.raises(UnknownTurn):
            told.begin(turn)


def test_a_turn_that_is_being_cancelled_cannot_begin_again() -> None:
    told = begun()
    told.cancel("r1")
    with pytest.raises(StaleAttempt):
        told.begin(1, "crash")


def test_no_turn_begins_while_another_runs() -> None:
    told = begun()
    told.ask("r2", user("u2"))
    with pytest.raises(Rejected):
        told.begin(2)
    told.cancel("r1")
    with pytest.raises(Rejected):
        told.begin(2)


def test_bare_streams_run_beside_a_turn_and_beside_each_other() -> None:
    told = begun()
    told.open_stream("s1")
    told.open_stream("s2")
    assert kinds(told.begin(2)) == kinds(told.begin(3)) == ["AttemptStarted"]


def test_a_turn_with_too_many_attempts_ends_with_a_public_error() -> None:
    told = begun(max_attempts=2, has_response_hook=True)
    told.emit(1, *open_text("half"))
    told.begin(1, "crash")
    told.emit(1, *open_text("more", "t2"), attempt=2)
    events = told.begin(1, "crash")
    assert kinds(events) == ["Chunk", "MessageEnded", "TurnEnded"]
    ended = the(TurnEnded, events)
    assert (ended.outcome, ended.reason, ended.error) == (
        Outcome.ERROR,
        "attempts-exhausted",
        told.rules.exhausted_text,
    )
    assert ended.detail == "2 attempts did not end"
    assert (ended.chunks, ended.hook_due) == (6, True)
    assert told.said() == ["hi", "halfmore"]


def test_a_bound_of_one_attempt_means_one() -> None:
    told = begun(max_attempts=1)
    assert endings(told.begin(1, "crash")) == [(1, "error", "attempts-exhausted")]


# -- what a dead attempt left open (R-17) ------------------------------------------------------------------


def test_the_next_attempt_first_closes_what_the_dead_one_left_open() -> None:
    told = begun()
    reasoning = [{"type": "reasoning-start", "id": "g"}, {"type": "reasoning-delta", "id": "g", "delta": "hm"}]
    told.emit(1, *reasoning, *open_text("half"))
    events = told.begin(1, "crash")
    assert kinds(events) == ["Chunk", "Chunk", "AttemptStarted"]
    assert chunks_of(events) == [{"type": "reasoning-end", "id": "g"}, {"type": "text-end", "id": "t"}]
    assert [(chunk.attempt, chunk.index) for chunk in pick(Chunk, events)] == [(1, 4), (1, 5)]


def test_the_next_attempt_continues_the_same_message() -> None:
    told = begun()
    told.emit(1, *open_text("half "))
    told.begin(1, "crash")
    told.emit(1, *text("and the rest", "t2"), attempt=2)
    message = ended_message(told.finish(1, attempt=2))
    assert [part["text"] for part in message["parts"]] == ["half ", "and the rest"]
    assert {part["state"] for part in message["parts"]} == {"done"}
    assert message["id"] == "a-r1"


def test_chunks_are_counted_per_request_over_all_attempts() -> None:
    told = begun()
    told.emit(1, *open_text("half"))
    told.begin(1, "crash")
    told.emit(1, *text("rest", "t2"), attempt=2)
    indexes = [event.index for event, _ in told.log if isinstance(event, Chunk)]
    assert indexes == list(range(6))


# -- stale attempts cannot speak (I-7) ---------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_an_attempt_that_is_not_the_running_one_can_neither_write_nor_finish(attempt: int) -> None:
    told = begun()
    told.begin(1, "crash")
    with pytest.raises(StaleAttempt):
        told.emit(1, *text("late"), attempt=attempt)
    with pytest.raises(StaleAttempt):
        told.finish(1, attempt=attempt)
    assert told.path == ["u1"]


def test_a_turn_that_has_ended_takes_no_chunks() -> None:
    told = begun()
    told.finish(1)
    with pytest.raises(StaleAttempt):
        told.emit(1, *text("late"))
    with pytest.raises(StaleAttempt):
        told.finish(1)


def test_a_turn_that_has_not_begun_takes_no_chunks() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    with pytest.raises(StaleAttempt):
        told.emit(1, *text("early"), attempt=0)


def test_a_chunk_that_does_not_fit_stays_in_the_log_only() -> None:
    told = begun()
    assert kinds(told.emit(1, {"type": "text-delta", "id": "nobody", "delta": "lost"})) == ["Chunk"]
    told.emit(1, *text("fine"))
    assert the(TurnEnded, told.finish(1)).chunks == 4
    assert told.said() == ["hi", "fine"]


def test_a_text_that_speaks_of_tool_outputs_is_a_text() -> None:
    told = begun()
    told.emit(1, *text('he said "tool-output-available" and "tool-approval-request"'))
    assert told.draft(2) is None
    told.finish(1)
    assert told.said()[1] == 'he said "tool-output-available" and "tool-approval-request"'


# -- finishing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED])
def test_one_batch_closes_open_parts_stores_the_message_and_ends_the_turn(outcome: Outcome) -> None:
    told = begun()
    told.emit(1, *open_text("half"))
    error = "boom" if outcome is Outcome.ERROR else None
    events = told.finish(1, outcome, error=error, detail="why", finish_reason="length", usage=Raw(b'{"n":1}'))
    assert kinds(events) == ["Chunk", "MessageEnded", "TurnEnded"]
    assert chunks_of(events) == [{"type": "text-end", "id": "t"}]
    assert ended_message(events)["parts"] == [{"type": "text", "text": "half", "state": "done"}]
    ended = the(TurnEnded, events)
    assert (ended.outcome, ended.error, ended.detail, ended.finish_reason) == (outcome, error, "why", "length")
    assert (bytes(ended.usage or b""), ended.chunks) == (b'{"n":1}', 3)
    assert told.said() == ["hi", "half"]


def test_an_ended_message_is_the_fold_of_its_chunks_and_the_closing_ones() -> None:
    told = begun()
    told.emit(1, {"type": "start", "messageMetadata": {"model": "m"}}, *open_text("half"), call("k1"))
    before = told.state.open[TurnId(1)].fold
    assert before is not None
    message = before.closed_message().to_dict()
    events = told.finish(1)
    assert ended_message(events) == message
    assert told.stored(2) == message


def test_a_turn_without_chunks_ends_without_a_message() -> None:
    told = begun()
    told.emit(1, {"type": "start"}, {"type": "data-flash", "data": 1, "transient": True})
    events = told.finish(1)
    assert kinds(events) == ["TurnEnded"]
    assert the(TurnEnded, events).chunks == 2
    assert told.path == ["u1"]


def test_a_turn_that_never_began_can_be_failed() -> None:
    told = stage(has_response_hook=True)
    told.defer("r1")
    events = told.finish(1, Outcome.ERROR, attempt=0, error="no messages")
    assert endings(events) == [(1, "error", None)]
    assert told.wanted().hooks == (1,)


def test_the_finish_reason_of_the_runner_overrides_that_of_the_stream() -> None:
    for given, expected in ((None, "length"), ("stop", "stop")):
        told = begun()
        told.emit(1, *text("x"), {"type": "finish", "finishReason": "length"})
        assert the(TurnEnded, told.finish(1, finish_reason=given)).finish_reason == expected


def test_a_finished_continuation_replaces_the_message_that_it_extended() -> None:
    told = stage()
    told.talk("r1", "u1", "one")
    told.go_on("c1")
    ended = the(MessageEnded, told.run(2, *text(" two", "t2")))
    assert ended.node == 2
    assert told.said() == ["hi", "one two"]


def test_a_continuation_that_fails_at_once_leaves_its_message_as_it_was() -> None:
    told = stage()
    told.talk("r1", "u1", "one")
    before = told.message(2)
    told.go_on("c1")
    told.begin(2)
    told.finish(2, Outcome.ERROR, error="boom")
    assert told.message(2) == before


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED])
def test_whatever_the_runner_says_a_cancelled_turn_ends_aborted(outcome: Outcome) -> None:
    told = begun()
    told.emit(1, *open_text("half"))
    told.cancel("r1")
    ended = the(TurnEnded, told.finish(1, outcome, error="boom"))
    assert (ended.outcome, ended.reason, ended.error) == (Outcome.ABORTED, "cancelled", None)
    assert told.said() == ["hi", "half"]


# -- sanitising and the cap (R-6) -------------------------------------------------------------------


def test_what_is_kept_of_an_answer_is_what_sanitising_leaves() -> None:
    told = begun(sanitize=lambda message: {**message, "parts": [p for p in message["parts"] if p["type"] == "text"]})
    told.emit(1, *text("kept"), call("k1"))
    told.finish(1)
    assert [part["type"] for part in told.message(2)["parts"]] == ["text"]


def test_an_answer_says_whether_sanitising_changed_it() -> None:
    for sanitize, changed in ((dict, False), (lambda message: {**message, "metadata": {"seen": 1}}, True)):
        told = begun(sanitize=sanitize)
        told.emit(1, *text("kept"))
        assert the(MessageEnded, told.finish(1)).sanitized is changed


def test_an_answer_that_cannot_be_sanitised_is_stored_and_its_turn_fails() -> None:
    def sanitize(message: dict[str, Any]) -> dict[str, Any]:
        if message["role"] == "assistant":
            raise ValueError("no idea")
        return message

    told = begun(sanitize=sanitize)
    told.emit(1, *text("kept"))
    ended = the(TurnEnded, told.finish(1))
    assert (ended.outcome, ended.error, ended.detail) == (
        Outcome.ERROR,
        told.rules.unsanitized_text,
        "ValueError: no idea",
    )
    assert told.said() == ["hi", "kept"]


@pytest.mark.obligation("003-38")
def test_a_transient_data_part_is_in_the_log_but_never_in_the_message() -> None:
    told = begun()
    flash = {"type": "data-flash", "data": 1, "transient": True}
    events = told.emit(1, *text("kept"), flash)
    assert [chunk.transient for chunk in pick(Chunk, events)] == [False, False, False, True]
    assert chunks_of(events)[-1] == flash
    told.finish(1)
    assert [part["type"] for part in told.message(2)["parts"]] == ["text"]


def test_the_cap_removes_the_oldest_in_the_batch_that_ends_the_turn() -> None:
    told = stage(max_persisted_messages=3)
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.emit(2, *text("two"))
    assert told.path == ["u1", "a-r1", "u2"]
    events = told.finish(2)
    assert kinds(events) == ["MessageEnded", "MessagesRemoved", "TurnEnded"]
    assert (the(MessagesRemoved, events).nodes, the(MessagesRemoved, events).cause) == ([1], "cap")
    assert told.path == ["a-r1", "u2", "a-r2"]


@pytest.mark.parametrize("cap", [1, 2, 3, 4, 5])
def test_the_cap_is_kept_exactly_once_nothing_is_open(cap: int) -> None:
    told = stage(max_persisted_messages=cap)
    for number in range(5):
        told.talk(f"r{number}", f"u{number}")
    assert len(told.path) == cap
    assert len(told.state.tree.nodes) == cap
    assert told.path[-1] == "a-r4"


def test_the_cap_leaves_alone_what_a_waiting_turn_answers() -> None:
    told = stage(max_persisted_messages=1)
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"))
    told.ask("r3", user("u3"))
    told.run(1, *text("one"))
    assert told.path == ["a-r1", "u2", "u3"]
    told.run(2, *text("two"))
    assert told.path == ["a-r2", "u3"]
    told.run(3, *text("three"))
    assert told.path == ["a-r3"]


def test_the_cap_takes_the_branches_that_hung_on_what_it_removes() -> None:
    told = stage(max_persisted_messages=2)
    told.talk("r1", "u1")
    told.ask("r2", user("u1", "changed"))  # another root: nodes 3 and 4
    told.run(2, *text("other"))
    assert set(told.state.tree.nodes) == {1, 2, 3, 4}
    told.talk("r3", "u3")
    assert told.path == ["u3", "a-r3"]
    assert set(told.state.tree.nodes) == {5, 6}


def test_the_cap_keeps_the_branch_on_which_another_turn_still_waits() -> None:
    told = stage(max_persisted_messages=2)
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))  # nodes 3, 4 below the first answer
    told.begin(2)
    told.ask("r3", user("u9", "elsewhere"))  # nodes 5, 6
    told.show(2)
    told.emit(2, *text("two"))
    told.finish(2)
    assert {5, 6} <= set(told.state.tree.nodes)
    told.run(3, *text("three"))
    assert told.message(6)["id"] == "a-r3"


# -- cancelling --------------------------------------------------------------------------------------------


def test_cancelling_a_waiting_turn_ends_it_at_once_and_its_question_stays() -> None:
    told = begun()
    told.ask("r2", user("u2"))
    assert endings(told.cancel("r2")) == [(2, "aborted", "cancelled")]
    assert told.path == ["u1", "u2"]


def test_cancelling_a_running_turn_asks_it_to_stop() -> None:
    told = begun()
    assert told.cancel("r1", by="ann") == [CancelRequested(TurnId(1), by="ann")]
    assert status(told) is TurnStatus.CANCELLING
    assert told.wanted().stop == (1,)


def test_cancelling_twice_causes_nothing_more() -> None:
    told = begun()
    told.cancel("r1")
    assert told.cancel("r1") == []
    told.finish(1)
    assert told.cancel("r1") == []


def test_cancelling_an_unknown_request_causes_nothing() -> None:
    assert begun().cancel("r9") == []


def test_chunks_that_were_under_way_are_kept_while_a_turn_is_being_cancelled() -> None:
    told = begun()
    told.emit(1, *open_text("half"))
    told.cancel("r1")
    told.emit(1, {"type": "text-delta", "id": "t", "delta": " and a bit"})
    told.finish(1, Outcome.ABORTED)
    assert told.said() == ["hi", "half and a bit"]


def test_cancelling_everything_stops_all_turns_but_no_bare_stream() -> None:
    told = begun()
    told.ask("r2", user("u2"))
    told.open_stream("s1")
    assert kinds(told.cancel()) == ["CancelRequested", "TurnEnded"]
    assert list(told.state.open) == [1, 3]


def test_a_bare_stream_is_cancelled_by_its_request() -> None:
    told = stage()
    told.open_stream("s1")
    told.begin(1)
    assert kinds(told.cancel("s1")) == ["CancelRequested"]
    assert endings(told.finish(1)) == [(1, "aborted", "cancelled")]


# -- clearing (R-9) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_cancelling", [True, False])
def test_clearing_aborts_the_running_turn_and_skips_the_waiting_ones(*, is_cancelling: bool) -> None:
    told = begun()
    told.emit(1, *open_text("half"))
    told.ask("r2", user("u2"))
    told.defer("r3")
    if is_cancelling:
        told.cancel("r1")
    events = told.clear("socket-7")
    assert kinds(events) == ["TurnEnded", "TurnEnded", "TurnEnded", "ChatCleared"]
    assert endings(events) == [
        (1, "aborted", "cleared"),
        (2, "skipped", "cleared"),
        (3, "skipped", "cleared"),
    ]
    assert [event.chunks for event in pick(TurnEnded, events)] == [2, 0, 0]
    assert events[-1] == ChatCleared(1, origin="socket-7")  # type: ignore[arg-type]
    assert (told.path, told.state.open, told.state.tree.nodes, told.state.tree.leaf) == ([], {}, {}, None)
    assert told.rows.messages == {}


def test_clearing_an_empty_agent_only_raises_the_generation() -> None:
    told = stage()
    assert kinds(told.clear()) == ["ChatCleared"]
    assert told.state.generation == 1


def test_nothing_of_a_cleared_turn_can_be_written_afterwards() -> None:
    told = begun()
    told.clear()
    with pytest.raises(StaleAttempt):
        told.emit(1, *text("late"))
    with pytest.raises(StaleAttempt):
        told.finish(1)
    with pytest.raises(UnknownTurn):
        told.begin(1, "crash")
    assert told.cancel("r1") == []


def test_turn_and_node_numbers_are_not_used_again_after_a_clear() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.clear()
    told.talk("r2", "u1")
    assert sorted(told.state.tree.nodes) == [3, 4]
    assert sorted(told.state.ended) == [1, 2]
    assert told.path == ["u1", "a-r2"]


def test_the_last_ended_turn_is_of_this_generation_and_not_skipped() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.ask("r3", user("u3"), policy="drop")
    assert told.state.last_ended is told.state.ended[TurnId(1)]
    told.clear()
    assert told.state.last_ended is None


# -- the response hook (R-28) ------------------------------------------------------------------------------


def test_the_hook_is_due_for_every_ending_but_skipped() -> None:
    told = stage(has_response_hook=True)
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.finish(2, Outcome.ERROR, error="before any chunk")
    told.ask("r3", user("u3"))
    told.cancel("r3")
    told.ask("r4", user("u4"))
    told.ask("r5", user("u5"), policy="drop")
    assert told.wanted().hooks == (1, 2, 3)
    told.begin(4)
    told.clear()
    assert told.wanted().hooks == (1, 2, 3, 4)


def test_the_hook_is_done_once() -> None:
    told = stage(has_response_hook=True)
    told.talk("r1", "u1")
    assert kinds(told.tell(MarkHookDone(TurnId(1)))) == ["HookDone"]
    assert told.tell(MarkHookDone(TurnId(1))) == []
    assert told.wanted().hooks == ()


def test_without_a_hook_none_is_due() -> None:
    told = stage()
    told.talk("r1", "u1")
    assert told.wanted().hooks == ()
    assert told.tell(MarkHookDone(TurnId(1))) == []


def test_a_bare_stream_has_no_hook() -> None:
    told = stage(has_response_hook=True)
    told.open_stream("s1")
    told.begin(1)
    told.finish(1)
    assert told.wanted().hooks == ()


def test_the_hook_of_an_open_turn_cannot_be_done() -> None:
    told = begun(has_response_hook=True)
    assert told.tell(MarkHookDone(TurnId(1))) == []


def test_only_the_newest_turns_are_remembered() -> None:
    told = stage()
    for number in range(RECENT_TURNS + 10):
        told.ask(f"r{number}", user(f"u{number}"))
        told.cancel(f"r{number}")
    assert len(told.state.ended) == RECENT_TURNS
    assert sorted(told.state.requests.values()) == sorted(told.state.ended)
    assert max(told.state.ended) == RECENT_TURNS + 10


# -- the four outcomes -------------------------------------------------------------------------------------


def test_the_row_of_a_turn_tells_its_ending() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.finish(2, Outcome.ERROR, error="boom", detail="ValueError: boom")
    told.ask("r3", user("u3"))
    told.begin(3)
    told.finish(3, Outcome.ABORTED)
    told.ask("r4", user("u4"))
    told.ask("r5", user("u5"), policy="drop")
    rows = [told.rows.turns[TurnId(turn)] for turn in (1, 2, 3, 4, 5)]
    assert [row.status for row in rows] == ["completed", "error", "aborted", "accepted", "skipped"]
    assert [row.error for row in rows] == [None, "boom", None, None, None]
    assert [row.is_open for row in rows] == [False, False, False, True, False]
    assert rows[1].detail == "ValueError: boom"
