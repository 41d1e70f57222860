"""Whole servers and their clients, played from seeds: whatever happens, the log is right and every client sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from everyword.core.project import project
from everyword.core.state import State
from everyword.events import Event, HookDone, Outcome
from everyword.ids import Seq
from everyword.log.base import Batch
from everyword.rows import MessageRow, Row
from everyword.runtime import decided_batch
from everyword.runtime.actor import Actor
from everyword.runtime.reconciler import _Timer
from everyword.runtime.response_hooks import ResponseHooks
from everyword.runtime.subscription import Subscription
from everyword.runtime.tail import Committed
from everyword.runtime.turn_supervisor import TurnSupervisor
from everyword.runtime.wake_scheduler import WakeScheduler
from everyword.testing.simulation import Run, simulate
from everyword.wire import frames
from tools.simulate import main

SEEDS, PARTS = 300, 10


@cache
def simulated(seed: int) -> Run:
    """Return the run of a seed without a bug. Each worker runs a seed once; its tests look at the same run."""
    return simulate(seed)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_the_log_is_right_once_all_is_quiet(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        run = simulated(seed)
        assert not run.problems, run.report()


@pytest.mark.parametrize("seed", [180, 319, 2070, 2308, 9091, 21677, 22383])
def test_what_a_seed_found_once_stays_mended(seed: int) -> None:
    run = simulated(seed)
    assert not run.problems, run.report()


def test_the_seeds_reach_crashes_and_every_way_to_end() -> None:
    runs = [simulated(seed) for seed in range(80)]
    trace = "\n".join(line for run in runs for line in run.trace)
    assert sum(run.lives for run in runs) > len(runs)
    for outcome in Outcome:
        assert f'"outcome":"{outcome.value}"' in trace
    for word in ("crashes", "append fails", "half-open", "call.answered", "chat.cleared", "superseded", "dropped"):
        assert word in trace, word


def test_the_seeds_reach_calls_that_are_approved_in_time_and_too_late() -> None:
    trace = "\n".join(line for seed in range(2, SEEDS, 2) for line in simulated(seed).trace)
    assert trace.count('"t":"call.started"') >= 5
    assert trace.count('"kind":"calls"') >= 3


def test_the_same_seed_gives_the_same_trace_byte_for_byte() -> None:
    for seed in range(20):
        assert "\n".join(simulate(seed).trace).encode() == "\n".join(simulated(seed).trace).encode()


def test_different_seeds_give_different_traces() -> None:
    assert len({"\n".join(simulated(seed).trace) for seed in range(20)}) == 20


# -- the simulation finds what is wrong ------------------------------------------------------------------------------


def visible_before_committed() -> AbstractContextManager[Any]:
    decide = Actor.decide

    def early(self: Actor) -> Batch | None:
        batch = decide(self)
        if batch is not None and self._under_way is not None:
            head = self.tail.head
            self.tail.publish([Committed(each.seq, each.at, each.event) for each in self._under_way.committed])
            self.tail.head = head
        return batch

    return patch.object(Actor, "decide", early)


def hooks_that_are_never_done() -> AbstractContextManager[Any]:
    async def forgetful(self: ResponseHooks, turn: Any, result: Any, principal: Any) -> None:
        await self._responder.on_response(result)

    return patch.object(ResponseHooks, "_run", forgetful)


def messages_that_are_not_projected() -> AbstractContextManager[Any]:

    def lossy(state: State, event: Event) -> list[Row]:
        rows = list(project(state, event))
        return [] if isinstance(event, HookDone) else [row for row in rows if not isinstance(row, MessageRow)]

    return patch.object(decided_batch, "project", lossy)


def two_runners_for_one_turn() -> AbstractContextManager[Any]:
    return patch.object(TurnSupervisor, "_is_running", lambda self, turn: False)


def timers_that_never_run_out() -> AbstractContextManager[Any]:
    return patch.object(_Timer, "set", lambda self, at: None)


def a_timekeeper_that_never_stops() -> AbstractContextManager[Any]:
    async def stay(self: WakeScheduler) -> None:
        return

    return patch.object(WakeScheduler, "stop", stay)


def ends_that_are_told_as_completed() -> AbstractContextManager[Any]:
    terminal = frames.terminal

    def rosy(request: Any, outcome: Outcome, **more: Any) -> bytes:
        return terminal(request, Outcome.COMPLETED, **more)

    return patch.object(frames, "terminal", rosy)


def readers_that_miss_a_page() -> AbstractContextManager[Any]:
    poll = Subscription.poll

    async def careless(self: Subscription, upto: Seq | None = None) -> Sequence[Committed]:
        page = await poll(self, upto)
        return page[1:] if len(page) > 4 else page

    return patch.object(Subscription, "poll", careless)


BUGS: dict[Callable[[], AbstractContextManager[Any]], str] = {
    visible_before_committed: "committed",
    hooks_that_are_never_done: "hooks",
    messages_that_are_not_projected: "rebuild",
    two_runners_for_one_turn: "effects",
    timers_that_never_run_out: "endings",
    a_timekeeper_that_never_stops: "leaks",
    ends_that_are_told_as_completed: "told",
    readers_that_miss_a_page: "transcript",
}


def found(check: str, run: Run) -> bool:
    return check in {name for name, _ in run.problems}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_seeded_bug_is_found_within_a_few_hundred_seeds(bug: Callable[[], AbstractContextManager[Any]]) -> None:
    check = BUGS[bug]
    for seed in range(SEEDS):
        with bug():
            is_found = found(check, simulate(seed))
        if is_found and not found(check, simulated(seed)):
            return
    pytest.fail(f"{SEEDS} seeds did not find {bug.__name__}")


# -- showing it ------------------------------------------------------------------------------------------------------


def test_a_failing_seed_is_shown_with_its_last_steps_and_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ends_that_are_told_as_completed():
        assert main(["--seeds", "20", "--show", "1", "--last", "5"]) == 1
    shown = capsys.readouterr().out
    assert "was told" in shown
    assert "the last 5 of" in shown
    assert "again: python -m tools.simulate --first" in shown
    assert "failing seeds:" in shown


def test_seeds_that_pass_are_only_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3"]) == 0
    assert capsys.readouterr().out.startswith("3 seeds in ")


def test_a_check_can_be_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    with ends_that_are_told_as_completed():
        assert main(["--seeds", "20", "--without", "told,committed,cleared"]) == 0
    assert "0 failed" in capsys.readouterr().out
