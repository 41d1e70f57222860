"""Which attempts count, what is progress, and when a turn is given up (R-17)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.core.attempts import PROGRESS_CHUNKS
from everyword.core.commands import RecordCallStart
from everyword.events import AttemptInterrupted, AttemptStarted, TurnEnded
from everyword.ids import Attempt, CallId, TurnId
from tests.core.histories import user
from tests.core.stage import Stage, stage, the

HOUR = 60 * 60 * 1000
STEP: list[dict[str, Any]] = [{"type": "start-step"}, {"type": "finish-step"}]


def begun(**rules: Any) -> Stage:
    """Turn 1 is being answered."""
    told = stage(**rules)
    told.ask("r1", user("u1"))
    told.begin(1)
    return told


def counted(told: Stage) -> int:
    return told.state.open[TurnId(1)].attempt_counter.counted


def output(call: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-output-available", "toolCallId": call, "output": 1, **fields}


def called(call: str) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": call, "toolName": "find", "input": {}}


def start_call(told: Stage, call: str, attempt: int) -> None:
    told.tell(RecordCallStart(TurnId(1), Attempt(attempt), CallId(call), "find"))


def test_an_attempt_that_a_shutdown_interrupted_does_not_count() -> None:
    told = begun(max_attempts=2)
    for attempt in range(1, 8):
        assert told.interrupt(1, attempt=attempt) == [AttemptInterrupted(TurnId(1), Attempt(attempt))]
        assert told.begin(1, "crash") == [AttemptStarted(TurnId(1), Attempt(attempt + 1), "shutdown")]
    told.begin(1, "crash")
    assert the(TurnEnded, told.begin(1, "crash")).reason == "attempts-exhausted"


def test_an_attempt_is_interrupted_once_and_only_while_it_runs() -> None:
    told = begun()
    told.ask("r2", user("u2"))
    assert told.interrupt(2, attempt=0) == []
    assert told.interrupt(1, attempt=2) == []
    assert len(told.interrupt(1)) == 1
    assert told.interrupt(1) == []
    told.begin(1)
    told.cancel("r1")
    assert told.interrupt(1, attempt=2) == []
    told.finish(1, attempt=2)
    assert told.interrupt(1, attempt=2) == []


def test_a_finished_step_starts_the_count_anew() -> None:
    told = begun(max_attempts=3)
    told.begin(1, "crash")
    told.begin(1, "crash")
    assert counted(told) == 3
    told.emit(1, *STEP, attempt=3)
    assert counted(told) == 1
    assert the(AttemptStarted, told.begin(1, "crash")).attempt == 4


def test_the_end_of_a_step_that_a_dead_attempt_began_is_no_progress() -> None:
    told = begun(max_attempts=3)
    told.emit(
        1, {"type": "start-step"}, {"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "x"}
    )
    for attempt in (2, 3):
        told.begin(1, "crash")
        told.emit(1, {"type": "finish-step"}, {"type": "start-step"}, attempt=attempt)
    assert counted(told) == 3
    assert the(TurnEnded, told.begin(1, "crash")).detail == "3 attempts did not end"


def test_the_output_of_a_call_that_this_attempt_made_is_progress() -> None:
    told = begun()
    told.begin(1, "crash")
    told.emit(1, called("k1"), attempt=2)
    start_call(told, "k1", 2)
    told.emit(1, output("k1", preliminary=True), attempt=2)
    assert counted(told) == 2
    told.emit(1, output("k1"), attempt=2)
    assert counted(told) == 1


def test_what_an_attempt_says_of_a_dead_ones_call_is_no_progress() -> None:
    told = begun()
    told.emit(1, called("k1"))
    start_call(told, "k1", 1)
    told.begin(1, "crash")
    told.emit(1, {"type": "tool-output-error", "toolCallId": "k1", "errorText": "nobody knows"}, attempt=2)
    assert counted(told) == 2


def test_many_chunks_are_progress_of_an_answer_without_steps() -> None:
    told = begun()
    told.begin(1, "crash")
    told.emit(1, {"type": "text-start", "id": "t"}, attempt=2)
    word = {"type": "text-delta", "id": "t", "delta": "x"}
    told.emit(1, *[word] * (PROGRESS_CHUNKS - 2), attempt=2)
    assert counted(told) == 2
    told.emit(1, word, attempt=2)
    assert counted(told) == 1
    told.begin(1, "crash")
    told.emit(1, {"type": "text-start", "id": "u"}, *[{**word, "id": "u"}] * (PROGRESS_CHUNKS - 3), attempt=3)
    assert counted(told) == 2


def test_progress_does_not_take_back_attempts_that_began_anew() -> None:
    told = begun(max_attempts=3)
    for attempt in (1, 2, 3):
        told.emit(1, *STEP, attempt=attempt)
        ended = told.begin(1, "crash", fresh=True)
    assert the(TurnEnded, ended).detail == "3 attempts did not end"


def test_a_fresh_attempt_that_a_shutdown_interrupts_does_not_count() -> None:
    told = begun(max_attempts=2)
    for attempt in range(2, 9):
        told.begin(1, "crash", fresh=True)
        told.emit(1, *STEP, attempt=attempt)
        told.interrupt(1, attempt=attempt)
        assert counted(told) == 1
    told.begin(1, "crash")
    told.emit(1, *STEP, attempt=9)
    assert counted(told) == 1


def test_attempts_are_bounded_in_total_whatever_progress_they_make() -> None:
    told = begun(max_total_attempts=4)
    for attempt in range(2, 5):
        told.begin(1, "crash")
        told.emit(1, *STEP, attempt=attempt)
    assert the(TurnEnded, told.begin(1, "crash")).detail == "4 attempts did not end, which is the limit in total"


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_the_running_time_of_all_attempts_is_bounded(is_interrupted: bool) -> None:
    told = begun(max_running_time=3 * HOUR)
    for attempt in range(1, 4):
        told.now += HOUR + 1
        told.emit(1, *STEP, attempt=attempt)
        if is_interrupted:
            told.interrupt(1, attempt=attempt)
        told.now += 10 * HOUR  # the time between two processes is not running time
        ended = told.begin(1, "crash")
    assert the(TurnEnded, ended).detail == "it ran for 10800 s, over 3 attempts, which is the limit"


def test_silence_over_a_shutdown_gives_nothing_up() -> None:
    told = begun(give_up_after=HOUR)
    told.begin(1, "crash")
    told.interrupt(1, attempt=2)
    told.now += 2 * HOUR
    assert the(AttemptStarted, told.begin(1, "crash")).attempt == 3


def test_a_restored_turn_counts_as_the_one_that_was_left() -> None:
    told = begun()
    told.emit(1, called("k1"), *STEP)
    start_call(told, "k1", 1)
    told.begin(1, "crash")
    told.emit(1, *STEP, attempt=2)
    told.interrupt(1, attempt=2)
    told.begin(1)
    state, _ = told.restored()
    assert state.open[TurnId(1)].attempt_counter == told.state.open[TurnId(1)].attempt_counter
    assert state.open[TurnId(1)].attempt_counter.counted == 1
