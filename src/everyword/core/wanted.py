"""What should be running. Start, restart after a crash, cancel and waiting are one question, asked at all times.

There is no recovery subsystem: the runtime compares this answer with what it has running and closes the difference.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ..ids import FiberId, JobId, Millis, RunId, TurnId
from ..messages.calls import is_mid_batch
from ..messages.message import UIMessage
from .fibers import open_fibers
from .jobs import due_jobs
from .runs import DueRuns, due_runs
from .state import State, Turn
from .transitions import Status
from .tree import shown_path

__all__ = ["NOW", "Wanted", "continuation_is_due", "wanted"]

NOW = Millis(0)
"""A wake time that has always come: there is work that no client needs to ask for."""


class Wanted(msgspec.Struct, frozen=True):
    """The work that a state calls for.

    `run` is the turn that should have a runner, `stop` the one whose runner should stop, `hooks` the ended turns whose
    response hook is due, in order. `wake` is when to ask again if nothing happens before: what the wake table keeps.
    """

    run: TurnId | None = None
    stop: TurnId | None = None
    hooks: tuple[TurnId, ...] = ()
    wake: Millis | None = None
    jobs: tuple[JobId, ...] = ()
    """The jobs that should be running."""
    fibers: tuple[FiberId, ...] = ()
    """The fibers that should be running: one that is not was left by a process that died."""
    runs: tuple[RunId, ...] = ()
    """The runs that should be watched."""
    stopped_runs: tuple[RunId, ...] = ()
    """Those of them whose sub-agents should stop."""
    run_hooks: tuple[RunId, ...] = ()
    """The ended runs that the agent's own code is to be told of."""
    later: Millis | None = None
    """When something is due that work which goes on now (`wake` is NOW) has no part in."""


def wanted(state: State, now: Millis) -> Wanted:
    """Return what the state calls for at `now`."""
    if state.is_destroyed:
        return Wanted(wake=NOW)  # whoever loads it deletes it
    turns = _wanted_turns(state, now)
    fibers = open_fibers(state) if state.fibers else ()
    runs = due_runs(state) if state.runs else DueRuns()
    if not state.jobs and not fibers and runs == DueRuns():
        return turns
    jobs = due_jobs(state, now)
    is_busy = bool(jobs.run or fibers or runs.watch or runs.tell)
    wakes = [at for at in (turns.wake, NOW if is_busy else jobs.wake) if at is not None]
    wake = min(wakes, default=None)
    times = [at for at in (turns.wake, turns.later, jobs.wake) if at is not None and at != NOW]
    later = min(times, default=None) if wake == NOW else None
    due = replace(turns, runs=runs.watch, stopped_runs=runs.stop, run_hooks=runs.tell)
    return replace(due, jobs=jobs.run, fibers=fibers, wake=wake, later=later)


def _wanted_turns(state: State, now: Millis) -> Wanted:
    hooks = tuple(sorted(state.hooks_due))
    current = state.current
    if current is not None and current.status is Status.CANCELLING:
        return Wanted(stop=current.id, hooks=hooks, wake=NOW)
    if current is not None:
        return Wanted(run=current.id, hooks=hooks, wake=NOW)
    wake: Millis | None = None
    for turn in state.chat_turns():
        if turn.is_continuation and not continuation_is_due(state, turn):
            continue  # waits for an answer, at no cost; others may pass
        start = turn.accepted.not_before
        if start is None or start <= now:
            return Wanted(run=turn.id, hooks=hooks, wake=NOW)
        wake = start if wake is None else min(wake, start)
        if not turn.is_continuation:
            break  # a debounced question keeps its place: what came later waits behind it
    return Wanted(hooks=hooks, wake=NOW, later=wake) if hooks else Wanted(wake=wake)


def continuation_is_due(state: State, turn: Turn) -> bool:
    """Tell whether a waiting continuation need not wait for another answer to its target (R-3).

    Also true when the target is not the last message any more: then it begins, and `decide` skips it.
    """
    path = shown_path(state)
    if not path or path[-1][0] != turn.node:
        return True
    body = path[-1][1].body
    return body is None or not is_mid_batch(UIMessage.decode(body))
