"""The messages that a reader of the log computes, wherever it started to read (I-10)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.core.commands import ReplaceState
from everyword.core.prune import is_redundant, state_is_prunable, turn_is_prunable
from everyword.core.transcript import Ending, Transcript
from everyword.events import AttemptStarted, Chunk, Event, Outcome, StateSet, TurnKind, TurnRetargeted, to_raw
from everyword.ids import Attempt, MessageId, Millis, NodeId, TurnId
from everyword.messages.server_fields import without_fields
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from tests.core.histories import assistant, user
from tests.core.stage import Stage, approval, call, open_text, stage, states, text, text_of


def seen(events: list[Event]) -> Transcript:
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript


def said(transcript: Transcript) -> dict[NodeId, dict[str, Any]]:
    return {node: without_fields(message) for node, message in transcript.messages.items()}


def watched(told: Stage) -> Transcript:
    return seen([event for event, _ in told.log])


def test_questions_are_seen_when_they_are_accepted() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    assert said(watched(told)) == {1: user("u1")}
    assert watched(told).endings == {}


def test_an_answer_is_seen_as_it_grows_under_the_id_that_it_will_keep() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    growing = watched(told).messages[2]  # type: ignore[index]
    assert (growing["id"], text_of(growing)) == ("a-r1", "half")


def test_a_continued_answer_keeps_its_id_and_what_it_had() -> None:
    told = stage()
    told.talk("r1", "u1", "one")
    told.go_on("c1")
    told.begin(2)
    told.emit(2, *open_text(" two", "t2"))
    growing = watched(told).messages[2]  # type: ignore[index]
    assert (growing["id"], text_of(growing)) == ("a-r1", "one two")


def test_what_is_seen_in_the_end_is_what_is_stored() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.put(assistant("x1", "put"))
    told.put(assistant("x1", "put again"))
    told.ask("r2", user("u2"))
    told.run(2, call("k1"), finish_reason="tool-calls")
    told.answer("k1", OutputAnswer(1))
    told.run(3, *text("so"))
    assert watched(told).messages == {node: told.stored(node) for node in (1, 2, 3, 4, 5)}


def test_how_every_turn_ended_is_seen() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.ask("r3", user("u3"), policy="drop")
    told.finish(2, Outcome.ERROR, error="boom")
    told.ask("r4", user("u4"))
    told.cancel("r4")
    assert watched(told).endings == {
        1: Ending("completed", None, None),
        2: Ending("error", "boom", None),
        3: Ending("skipped", None, "dropped"),
        4: Ending("aborted", None, "cancelled"),
    }


def test_a_dropped_question_is_not_seen() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"), policy="drop")
    assert list(watched(told).messages) == [1]


def test_merged_questions_are_seen_as_one() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.ask("r2", user("u2", "two"), policy="merge")
    told.ask("r3", user("u3", "three"), policy="merge")
    assert [text_of(message) for message in watched(told).messages.values()] == ["hi", "two\n\nthree"]


def test_an_answer_to_a_stored_call_is_seen_at_once() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.run(1, call("k1"), approval("k1"))
    told.answer("k1", ApprovalAnswer(True), auto_continue=False)
    assert watched(told).messages[2] == told.message(2)  # type: ignore[index]


def test_a_denial_of_a_streaming_call_is_seen_in_the_chunks_and_in_the_end() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, call("k1"), approval("k1"))
    told.answer("k1", ApprovalAnswer(False, "no"), auto_continue=False)
    assert states(watched(told).messages[2]) == {"k1": "output-denied"}  # type: ignore[index]
    told.finish(1)
    assert watched(told).messages[2] == told.message(2)  # type: ignore[index]


def test_after_a_clear_nothing_is_seen_of_before_but_the_endings() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.emit(2, *open_text("half"))
    told.clear()
    assert watched(told).messages == {}
    assert sorted(watched(told).endings) == [1, 2]


def test_bare_streams_and_transient_parts_are_not_seen() -> None:
    told = stage()
    told.open_stream("s1")
    told.begin(1)
    told.emit(1, *text("bare"))
    told.ask("r1", user("u1"))
    told.begin(2)
    told.emit(2, {"type": "data-flash", "data": 1, "transient": True})
    assert said(watched(told)) == {1: user("u1")}


@pytest.mark.parametrize("cursor", range(12))
def test_an_observer_that_missed_pruned_chunks_sees_the_same_in_the_end(cursor: int) -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    told.begin(1, "crash")
    told.emit(1, *text("and whole", "t2"), attempt=2)
    told.finish(1, attempt=2)
    events = [event for event, _ in told.log]
    late = [event for place, event in enumerate(events) if place < cursor or not isinstance(event, Chunk)]
    assert seen(late).messages == seen(events).messages
    assert seen(late).endings == seen(events).endings


def test_a_continuation_is_seen_at_its_last_target() -> None:
    """Older logs have continuations that were moved from one message to another."""
    told = stage()
    told.talk("r1", "u1", "one")
    told.talk("r2", "u2", "two")
    told.go_on("c1")
    moved = [event for event, _ in told.log]
    moved.append(TurnRetargeted(TurnId(3), NodeId(2), MessageId("a-r1"), Millis(0)))
    moved.append(AttemptStarted(TurnId(3), Attempt(1)))
    moved += [Chunk(TurnId(3), Attempt(1), index, to_raw(chunk)) for index, chunk in enumerate(open_text(" more"))]
    found = seen(moved).messages
    assert (text_of(found[NodeId(2)]), text_of(found[NodeId(4)])) == ("one more", "two")


def test_deltas_without_their_pruned_beginning_are_ignored() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    events = [event for event, _ in told.log]
    assert said(seen([event for event in events if event is not events[2]])) == {1: user("u1")}


# -- prune -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ended_at", "prunable"),
    [
        (TurnKind.CHAT, 99, True),
        (TurnKind.CONTINUATION, 99, True),
        (TurnKind.CHAT, 100, False),
        (TurnKind.CHAT, None, False),
        (TurnKind.CONTINUATION, None, False),
        (TurnKind.STREAM, 99, True),
        (TurnKind.STREAM, None, False),
        (TurnKind.RSM, 99, False),
        (TurnKind.RSM, None, False),
    ],
)
def test_only_chunks_of_old_ended_answers_may_go(kind: TurnKind, ended_at: int | None, *, prunable: bool) -> None:
    ended = Millis(ended_at) if ended_at is not None else None
    assert turn_is_prunable(kind, ended, Millis(100)) is prunable


@pytest.mark.parametrize(("replaced_at", "prunable"), [(99, True), (100, False), (None, False)])
def test_only_states_that_were_replaced_long_ago_may_go(replaced_at: int | None, *, prunable: bool) -> None:
    replaced = Millis(replaced_at) if replaced_at is not None else None
    assert state_is_prunable(replaced, Millis(100)) is prunable


def test_nothing_but_chunks_and_states_is_redundant() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.tell(ReplaceState(to_raw({"n": 1})))
    redundant = [event for event, _ in told.log if is_redundant(event, prunable=True)]
    assert redundant == [event for event, _ in told.log if isinstance(event, Chunk | StateSet)]
    assert isinstance(redundant[-1], StateSet)
    assert not any(is_redundant(event, prunable=False) for event, _ in told.log)


def test_an_ending_without_its_turn_is_seen_all_the_same() -> None:
    told = stage()
    told.talk("r1", "u1")
    late = [event for event, _ in told.log][-2:]
    assert seen(late).endings == {TurnId(1): Ending("completed", None, None)}
    assert text_of(seen(late).messages[2]) == "fine"  # type: ignore[index]
