"""Runs: started once, ended once, stopped with the turn that waits, and reported to their hook."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from everyword.core.commands import (
    BeginAttempt,
    CancelTurns,
    Command,
    EndRun,
    FinishTurn,
    MarkRunTold,
    StartRun,
    Submit,
)
from everyword.core.project import all_rows
from everyword.core.restore import restore
from everyword.core.runs import RECENT_RUNS
from everyword.core.state import Rules, State
from everyword.core.wanted import NOW, wanted
from everyword.events import Outcome, RunEnded, RunStarted, RunTold, TurnEnded, to_raw
from everyword.ids import Attempt, CallId, MessageId, Millis, RequestId, RunId, TurnId
from everyword.rows import KeptRow
from tests.core.histories import Choices, History, refold, user

A, B, C = RunId("a"), RunId("b"), RunId("c")
TURN = TurnId(1)


def started(*runs: RunId, rules: Rules | None = None, within: TurnId | None = None) -> History:
    history = History(rules if rules is not None else Rules())
    if within is not None:
        history.tell(Submit(RequestId("r"), MessageId("m"), [user("u")]))
        history.tell(BeginAttempt(within))
    for run in runs:
        history.tell(StartRun(run, "kid", within=within))
    return history


def due(history: History) -> tuple[tuple[RunId, ...], tuple[RunId, ...], tuple[RunId, ...]]:
    found = wanted(history.state, Millis(history.now))
    return found.runs, found.stopped_runs, found.run_hooks


def test_a_run_begins_once_and_ends_once_for_good() -> None:
    history = started(A)
    assert history.tell(StartRun(A, "other")) == []
    assert due(history) == ((A,), (), ())
    (ended,) = history.tell(EndRun(A, "completed", summary="done", output=to_raw([1])))
    assert ended == RunEnded(A, "completed", summary="done", output=to_raw([1]))
    assert history.tell(EndRun(A, "error", error="late")) == []
    assert history.tell(StartRun(A, "kid")) == [], "what has ended is not run again"
    assert history.tell(EndRun(B, "error")) == [], "and what never began does not end"
    assert wanted(history.state, Millis(history.now)).wake is None


def test_an_open_run_is_watched_after_the_agent_is_loaded() -> None:
    history = started(A)
    assert wanted(history.state, Millis(history.now)).wake == NOW
    assert due(history) == ((A,), (), ())


def test_an_interrupted_run_may_be_taken_up_and_gets_its_real_end() -> None:
    """Trap 193: an early interruption does not hide the later result."""
    history = started(A)
    history.tell(EndRun(A, "interrupted", error="silent", reason="no-progress", is_child_running=True))
    assert due(history) == ((), (), ())
    (again,) = history.tell(StartRun(A, "kid", within=None))
    assert isinstance(again, RunStarted) and due(history) == ((A,), (), ())
    history.tell(EndRun(A, "completed", summary="after all"))
    ended = history.state.runs[A].ended
    assert ended is not None and (ended.status, ended.summary) == ("completed", "after all")


def test_a_run_stops_with_its_turn_unless_it_is_detached() -> None:
    history = started(A, within=TURN)
    history.tell(StartRun(B, "kid", within=TURN, is_detached=True))
    history.tell(StartRun(C, "kid"))
    assert due(history) == ((A, B, C), (), ())
    history.tell(CancelTurns(RequestId("r")))
    assert due(history)[1] == (), "the turn may still say something"
    history.tell(FinishTurn(TURN, Attempt(1), Outcome.ABORTED))
    assert due(history) == ((A, B, C), (A,), ())
    assert wanted(history.state, Millis(history.now)).wake == NOW


def test_too_many_runs_at_once_are_recorded_as_errors() -> None:
    history = started(A, rules=Rules(max_runs=1))
    begun, ended = history.tell(StartRun(B, "kid"))
    assert isinstance(begun, RunStarted) and isinstance(ended, RunEnded)
    assert (ended.status, ended.error) == (
        "error",
        "AgentToolLimits.max_concurrent (1) exceeded: wait for a run to end, or raise the limit",
    )
    history.tell(EndRun(A, "completed"))
    assert len(history.tell(StartRun(C, "kid"))) == 1


def test_a_refused_run_says_why() -> None:
    begun, ended = History().tell(StartRun(A, "kid", refusal="too deep"))
    assert isinstance(begun, RunStarted) and ended == RunEnded(A, "error", error="too deep")


def test_runs_of_one_call_are_numbered_unless_they_say_where_they_stand() -> None:
    history = History()
    for run, call, order in [("a", "x", None), ("b", "x", None), ("c", "y", None), ("d", "x", 7), ("e", None, None)]:
        history.tell(StartRun(RunId(run), "kid", call=CallId(call) if call else None, order=order))
    assert [run.started.order for run in history.state.runs.values()] == [0, 1, 0, 7, 0]


def test_the_hook_of_a_run_is_due_until_it_is_marked_as_done() -> None:
    history = started(A, rules=Rules(has_run_hook=True))
    history.tell(EndRun(A, "completed"))
    assert due(history) == ((), (), (A,)) and wanted(history.state, Millis(history.now)).wake == NOW
    assert history.tell(MarkRunTold(A)) == [RunTold(A)]
    assert history.tell(MarkRunTold(A)) == history.tell(MarkRunTold(B)) == []
    assert due(history) == ((), (), ())


def test_only_the_newest_ends_are_remembered_and_no_open_run_is_forgotten() -> None:
    history = started(C)
    for n in range(RECENT_RUNS + 5):
        history.tell(StartRun(RunId(f"r{n}"), "kid"))
        history.tell(EndRun(RunId(f"r{n}"), "completed"))
    assert list(history.state.runs)[:2] == [C, RunId("r5")]
    assert len(history.rows.kept) == RECENT_RUNS + 1


def test_output_of_a_sub_agent_is_progress_of_the_turn_that_waits() -> None:
    """Trap 189."""
    history = started(A, within=TURN, rules=Rules(give_up_after=1_000))
    history.tell(BeginAttempt(TURN, "crash"))
    history.now += 5_000
    gone = replace(BeginAttempt(TURN, "crash"), heard_at=None)
    heard = replace(gone, heard_at=Millis(history.now - 10))
    assert not any(isinstance(event, TurnEnded) for event in history.tell(heard))
    assert any(isinstance(event, TurnEnded) for event in history.tell(gone))


def test_a_row_that_cannot_be_read_costs_that_run_only() -> None:
    history = started(A, B)
    rows = [*history.rows.kept.values(), KeptRow("run", "c", b"{broken")]
    state, problems = restore(None, [], [], [], rows)
    assert list(state.runs) == [A, B]
    assert len(problems) == 1 and "run 'c'" in problems[0]


# -- whatever happens ----------------------------------------------------------------------------------------------


def walk(source: bytes) -> History:
    """Return the history of runs that these bytes choose; mostly legal."""
    choices = Choices(source)
    history = History(Rules(max_runs=choices.of([None, 3]), has_run_hook=choices.of([False, True])))
    while choices.goes_on():
        history.now += choices.number(3)
        is_open = [run.id for run in history.state.runs.values() if run.is_open]
        named = [RunId(f"f{choices.number(5)}"), RunId(f"f{choices.number(250)}")]
        known = choices.of(is_open) if is_open and not choices.rarely() else choices.of(named)
        status = choices.of(["completed", "error", "aborted", "interrupted"])
        commands: list[Command] = [
            StartRun(choices.of(named), "kid", is_detached=choices.of([True, False])),
            EndRun(known, status, summary=choices.of([None, "s"]), output=to_raw(choices.of([None, 1]))),
            MarkRunTold(choices.of([known, *history.state.runs])),
        ]
        history.play(choices.of(commands))
    return history


def loaded(history: History) -> State:
    return restore(history.rows.agent, [], [], [], history.rows.kept.values())[0]


@given(st.binary(min_size=100, max_size=900).map(walk))
def test_rows_restore_to_the_fold_of_the_log_and_a_final_end_is_last(history: History) -> None:
    assert loaded(history).runs == refold(history.log).runs == history.state.runs
    assert {row for row in all_rows(history.state) if isinstance(row, KeptRow)} == set(history.rows.kept.values())
    last: dict[RunId, str] = {}
    for event, _ in history.log:
        match event:
            case RunStarted():
                assert last.get(event.run) in (None, "interrupted")
                last[event.run] = "running"
            case RunEnded():
                assert last[event.run] == "running"
                last[event.run] = event.status
                if event.forgets is not None:
                    del last[event.forgets]
            case _:
                assert isinstance(event, RunTold)
    assert {run.id: run.ended.status if run.ended else "running" for run in history.state.runs.values()} == last


@pytest.mark.parametrize("most", [1, 3])
def test_never_more_runs_than_allowed_are_open(most: int) -> None:
    history = History(Rules(max_runs=most))
    for n in range(8):
        history.tell(StartRun(RunId(f"r{n}"), "kid"))
        assert sum(run.is_open for run in history.state.runs.values()) <= most
