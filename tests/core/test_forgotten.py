"""Turns that are stopped in recovery without keeping the answer: all of it is discarded, and nothing else (R-17)."""

from __future__ import annotations

import pytest

from everyword.events import AttemptStarted, MessagesRemoved, Outcome, TurnEnded
from everyword.messages.tool_calls import OutputAnswer
from tests.core.histories import user
from tests.core.stage import (
    Stage,
    approval,
    call,
    ended_message,
    kinds,
    open_text,
    stage,
    states,
    text,
    text_of,
    the,
)


def begun() -> Stage:
    """u1 (node 1) is being answered by turn 1 (node 2)."""
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    return told


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.ABORTED])
def test_a_turn_that_is_forgotten_keeps_nothing_and_ends_in_one_batch(outcome: Outcome) -> None:
    told = begun()
    told.emit(1, *open_text("half"), call("c1"), approval("c1"))
    assert told.draft(2) is not None
    events = told.finish(1, outcome, forget="crash", reason="recovery-stopped")
    assert kinds(events) == ["AttemptStarted", "TurnEnded"]
    assert the(AttemptStarted, events).fresh
    assert (the(TurnEnded, events).outcome, the(TurnEnded, events).chunks) == (outcome, 4)
    assert told.path == ["u1"] and told.draft(2) is None
    assert told.restored()[0].tree.nodes == told.state.tree.nodes


def test_a_question_behind_a_forgotten_answer_stays() -> None:
    told = begun()
    told.emit(1, *open_text("half"))
    told.ask("r2", user("u1"), user("u2"))
    told.finish(1, Outcome.ERROR, forget="stall")
    told.run(2, *text("fine"))
    assert told.path == ["u1", "u2", "a-r2"]


def test_a_continuation_that_is_forgotten_keeps_its_message() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.run(1, *text("first"), call("c1"), finish_reason="tool-calls")
    told.answer("c1", OutputAnswer("done"))
    told.wait(50)
    told.begin(2)
    told.emit(2, *open_text("more", "t2"))
    message = ended_message(told.finish(2, Outcome.ERROR, forget="crash"))
    assert states(message) == {"c1": "output-available"}
    assert text_of(message) == "firstmore"


def test_a_managed_stream_is_never_forgotten() -> None:
    told = stage()
    told.open_stream("s1")
    told.begin(1)
    told.emit(1, {"type": "data", "data": 1})
    assert kinds(told.finish(1, Outcome.ERROR, forget="crash")) == ["TurnEnded"]


def test_a_turn_that_a_person_stopped_is_kept_even_if_it_is_to_be_forgotten() -> None:
    told = begun()
    told.emit(1, *open_text("half"))
    told.cancel("r1")
    assert text_of(ended_message(told.finish(1, Outcome.ERROR, forget="crash"))) == "half"


def test_the_cap_counts_no_forgotten_answer() -> None:
    told = stage(max_persisted_messages=2)
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.emit(2, *open_text("half"))
    assert the(MessagesRemoved, told.finish(2, Outcome.ERROR, forget="crash")).cause == "cap"
    assert told.path == ["a-r1", "u2"]
