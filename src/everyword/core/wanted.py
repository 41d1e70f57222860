"""Which work should be running now. Start, restart after a crash, cancel and wait are one computation.

There is no recovery subsystem: the runtime compares the result with what is running, and starts and stops the rest.
"""

from __future__ import annotations

from itertools import islice

import msgspec
from msgspec.structs import replace

from ..ids import FiberId, JobId, Millis, RunId, TurnId
from ..rows import ApprovalRecord
from .continuations import continuation_is_due, waiting_continuations
from .conversations import deletion_due
from .fibers import open_fibers
from .jobs import due_jobs
from .runs import DueRuns, due_runs
from .state import State
from .transitions import TurnStatus
from .turn_state import TurnState
from .waiting_approvals import due_approvals

__all__ = ["NOW", "Wanted", "wanted"]

NOW = Millis(0)
"""The wake time of an agent that has work to do at once."""


class Wanted(msgspec.Struct, frozen=True):
    """The work that should be running.

    `run` is the chat turn that should have a runner, `calls` the turn of late calls that should have one beside it
    (R-3), `stop` the turns whose runners should stop, `hooks` the ended turns whose response hook is due, in order.
    `wake` is when to compute this again if nothing happens before; the wake table stores it.
    """

    run: TurnId | None = None
    calls: TurnId | None = None
    stop: tuple[TurnId, ...] = ()
    hooks: tuple[TurnId, ...] = ()
    wake: Millis | None = None
    jobs: tuple[JobId, ...] = ()
    """The jobs that should be running."""
    fibers: tuple[FiberId, ...] = ()
    """The fibers that should be running. One that is not running was left by a process that crashed."""
    runs: tuple[RunId, ...] = ()
    """The runs that should be watched."""
    stopped_runs: tuple[RunId, ...] = ()
    """The watched runs whose sub-agents should stop."""
    run_hooks: tuple[RunId, ...] = ()
    """The ended runs whose hook is due."""
    expired: tuple[ApprovalRecord, ...] = ()
    """The requests for approvals that nobody answered in time: they are to be denied."""
    is_outdated: bool = False
    """True when the conversation is to be deleted, because nothing has happened in it for as long as it is kept."""
    later: Millis | None = None
    """When the next timed work is due, if `wake` is NOW."""


def wanted(state: State, now: Millis) -> Wanted:
    """Return the work that should be running at `now`."""
    if state.is_destroyed:
        return Wanted(wake=NOW)  # the process that loads it deletes it
    work = _wanted_work(state, now)
    if not state.waiting and (state.conversation is None or state.conversation.keep_for is None):
        return work
    return _with_deadlines(state, work, now)


def _with_deadlines(state: State, work: Wanted, now: Millis) -> Wanted:
    """Add the calls that expire, and the end of the time for which the conversation is kept."""
    expired, next_expiry = due_approvals(state, now)
    delete_at = deletion_due(state)
    is_over = delete_at is not None and delete_at <= now
    is_outdated = is_over and work.wake != NOW and not _has_last_job(state)
    times = [at for at in (next_expiry, None if is_over else delete_at) if at is not None]
    if expired or is_outdated:
        later = min([at for at in (work.wake, work.later, *times) if at is not None and at != NOW], default=None)
        return replace(work, expired=expired, is_outdated=is_outdated, wake=NOW, later=later)
    if not times:
        return work
    if work.wake == NOW:
        return replace(work, later=min([at for at in (work.later, *times) if at is not None]))
    return replace(work, wake=min([at for at in (work.wake, *times) if at is not None]))


def _has_last_job(state: State) -> bool:
    """Return whether a job is still to run that does not repeat."""
    return any(job.is_last for job in state.jobs.values())


def _wanted_work(state: State, now: Millis) -> Wanted:
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
    stop = tuple(turn.id for turn in state.message_turns() if turn.status is TurnStatus.CANCELLING)
    late, current = next(state.late_calls(), None), state.current
    calls = late.id if late is not None and late.id not in stop and _may_write(state, late) else None
    if current is not None:
        run = current.id if current.id not in stop else None
        return Wanted(run=run, calls=calls, stop=stop, hooks=hooks, wake=NOW)
    if late is not None:
        return Wanted(calls=calls, stop=stop, hooks=hooks, wake=NOW)  # the next turn reads their outputs
    run, wake = _next_turn(state, now)
    if run is not None:
        return Wanted(run=run, hooks=hooks, wake=NOW)
    return Wanted(hooks=hooks, wake=NOW, later=wake) if hooks else Wanted(wake=wake)


def _next_turn(state: State, now: Millis) -> tuple[TurnId | None, Millis | None]:
    """Return the turn that may begin now, or the time when one may.

    A continuation begins before the questions behind its message. One that waits for another answer lets them pass.
    """
    due = [turn for turn in waiting_continuations(state) if continuation_is_due(state, turn)]
    questions = (turn for turn in state.chat_turns() if not turn.is_continuation)
    wake: Millis | None = None
    for turn in due or islice(questions, 1):  # a debounced question keeps its place: later ones wait behind it
        start = turn.accepted.not_before
        if start is None or start <= now:
            return turn.id, None
        wake = start if wake is None else min(wake, start)
    return None, wake


def _may_write(state: State, turn: TurnState) -> bool:
    writer = state.writer(turn.node)
    return writer is None or writer is turn
