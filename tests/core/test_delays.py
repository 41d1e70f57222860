"""Delayed attempts are recorded at once, so that clients see that the turn is being recovered."""

from __future__ import annotations

from everyword.events import AttemptDelayed
from everyword.ids import Attempt, TurnId
from tests.core.histories import user
from tests.core.stage import Stage, stage, text


def begun() -> Stage:
    """Turn 1 is being answered."""
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    return told


def test_a_turn_with_a_delayed_attempt_recovers_until_the_first_chunk() -> None:
    told = begun()
    assert told.delay(1) == [AttemptDelayed(TurnId(1), Attempt(2), "retry")]
    assert told.delay(1, "crash") == []
    turn = told.state.open[TurnId(1)]
    told.emit(1, *text("late"))
    assert turn.recovers_with == 2
    told.begin(1, "retry")
    assert turn.recovers_with == 2
    assert told.delay(1, attempt=2) == [AttemptDelayed(TurnId(1), Attempt(3), "retry")]
    told.begin(1, "retry")
    told.emit(1, *text("on", "t2"), attempt=3)
    assert turn.recovers_with is None


def test_no_attempt_of_a_turn_that_waits_is_stopped_or_is_over_comes_later() -> None:
    told = begun()
    told.ask("r2", user("u2"))
    assert told.delay(2) == []
    told.cancel("r1")
    assert told.delay(1) == []
    told.finish(1)
    assert told.delay(1) == []


def test_a_late_delay_does_not_delay_an_attempt_that_has_begun() -> None:
    told = begun()
    told.begin(1, "retry")
    told.emit(1, *text("on"), attempt=2)
    assert told.delay(1, attempt=1) == []
    assert told.state.open[TurnId(1)].recovers_with is None
