"""Runs: sub-agents that work as tools of this one. That they began and how they ended is here, the rest in their logs.

A run that something waits for does not outlive the turn that waits: when that has ended, the run is to be stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from ..events import Event, RunEnded, RunStarted, RunTold
from ..ids import Millis, RunId
from ..rows import KeptRow
from .commands import EndRun, MarkRunTold, StartRun
from .state import Rules, RunState, State

__all__ = ["RECENT_RUNS", "RUN", "DueRuns", "due_runs", "end_run", "evolve_run", "mark_run_told", "restore_run"]
__all__ += ["run_row", "run_rows", "start_run"]

RUN: Final = "run"
"""The kind of row that keeps a run."""

RECENT_RUNS: Final = 128
"""How many ended runs are remembered: those that pages are told of, and whose ends are known without asking."""


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run as its row keeps it."""

    started: RunStarted
    started_at: Millis
    ended: RunEnded | None = None
    ended_at: Millis | None = None
    hook_due: bool = False


@dataclass(frozen=True, slots=True)
class DueRuns:
    """The runs that should be watched, those of them that should stop, and the ends that somebody is to be told of."""

    watch: tuple[RunId, ...] = ()
    stop: tuple[RunId, ...] = ()
    tell: tuple[RunId, ...] = ()


# -- deciding ----------------------------------------------------------------------------------------------------------


def start_run(state: State, command: StartRun, rules: Rules) -> list[Event]:
    """Return the start of a run; none when it runs or has ended for good, and again when it was only interrupted.

    One that may not begin is recorded with its end, so that whoever watches sees why.
    """
    known = state.runs.get(command.run)
    if known is not None:
        is_interrupted = known.ended is not None and known.ended.status == "interrupted"
        return [replace(known.started, within=command.within)] if is_interrupted else []
    beside = sum(run.started.call == command.call and run.started.within == command.within for run in _runs(state))
    started = RunStarted(
        command.run,
        command.kind,
        call=command.call,
        within=command.within,
        input=command.input,
        preview=command.preview,
        order=command.order if command.order is not None else beside,
        display=command.display,
        is_detached=command.is_detached,
        expects=command.expects,
        number=state.last_run + 1,
        principal=command.principal,
        trace=command.trace,
    )
    refusal = command.refusal or _why_too_many(state, rules)
    if refusal is None:
        return [started]
    hook = rules.has_run_hook
    return [started, RunEnded(command.run, "error", error=refusal, hook_due=hook, forgets=_forgettable(state))]


def _why_too_many(state: State, rules: Rules) -> str | None:
    running = sum(run.is_open for run in _runs(state))
    if rules.max_runs is None or running < rules.max_runs:
        return None
    return f"AgentToolLimits.max_concurrent ({rules.max_runs}) exceeded: wait for one of them to end, or raise it"


def end_run(state: State, command: EndRun, rules: Rules) -> list[Event]:
    """Return the end of a run: one for good, or an interruption that a later one may take the place of."""
    run = state.runs.get(command.run)
    if run is None or not run.is_open:
        return []
    return [
        RunEnded(
            command.run,
            command.status,
            summary=command.summary,
            output=command.output,
            error=command.error,
            reason=command.reason,
            is_child_running=command.is_child_running,
            hook_due=rules.has_run_hook,
            forgets=_forgettable(state),
            usage=command.usage,
        )
    ]


def mark_run_told(state: State, command: MarkRunTold) -> list[Event]:
    run = state.runs.get(command.run)
    return [RunTold(command.run)] if run is not None and run.hook_due else []


def due_runs(state: State) -> DueRuns:
    """Return what open and ended runs call for."""
    watch = tuple(run.id for run in _runs(state) if run.is_open)
    stop = tuple(run for run in watch if _is_orphaned(state, state.runs[run]))
    return DueRuns(watch, stop, tuple(run.id for run in _runs(state) if run.hook_due))


def _is_orphaned(state: State, run: RunState) -> bool:
    within = run.started.within
    return within is not None and within not in state.open and not run.started.is_detached


def _forgettable(state: State) -> RunId | None:
    """Return the oldest ended run that nobody is to be told of, when one more would be too many.

    Not one of an open turn: what it used is part of what the turn used.
    """
    ended = [
        run.id for run in _runs(state) if not run.is_open and not run.hook_due and not _is_counted_later(state, run)
    ]
    return ended[0] if len(ended) >= RECENT_RUNS else None


def _is_counted_later(state: State, run: RunState) -> bool:
    return run.started.within in state.open


def _runs(state: State) -> list[RunState]:
    return list(state.runs.values())


# -- folding and keeping ---------------------------------------------------------------------------------------------


def evolve_run(state: State, event: RunStarted | RunEnded | RunTold, at: Millis) -> None:
    """Apply an event to the runs."""
    if isinstance(event, RunStarted):
        known = state.runs.get(event.run)
        state.runs[event.run] = RunState(event, known.started_at if known is not None else at)
        state.last_run = max(state.last_run, event.number)
        return
    run = state.runs.get(event.run)
    if run is None:
        return
    if isinstance(event, RunTold):
        run.hook_due = False
        return
    run.ended, run.ended_at, run.hook_due = event, at, event.hook_due
    if event.forgets is not None:
        state.runs.pop(event.forgets, None)


def run_rows(state: State, event: RunStarted | RunEnded | RunTold) -> list[KeptRow]:
    """Return the rows that an event changed."""
    rows = [run_row(state, event.run)]
    if isinstance(event, RunEnded) and event.forgets is not None:
        rows.append(run_row(state, event.forgets))
    return rows


def run_row(state: State, run: RunId) -> KeptRow:
    """Return the run's row as it stands; without a body when it was forgotten."""
    found = state.runs.get(run)
    if found is None:
        return KeptRow(RUN, run, None)
    kept = _Kept(found.started, found.started_at, found.ended, found.ended_at, found.hook_due)
    return KeptRow(RUN, run, msgspec.json.encode(kept))


def restore_run(row: KeptRow) -> RunState:
    """Return the run that a row keeps.

    Raises:
        ValueError: it cannot be read.
    """
    if row.body is None:
        raise ValueError("it is gone")
    kept = msgspec.json.decode(row.body, type=_Kept)
    return RunState(kept.started, kept.started_at, kept.ended, kept.ended_at, kept.hook_due)
