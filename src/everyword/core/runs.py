"""Runs: sub-agents that work as tools of this agent. Their starts and ends are here, the rest is in their own logs.

A run that is not detached does not outlive the turn that started it: when the turn has ended, the run is stopped.
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

__all__ = [
    "RECENT_RUNS",
    "RUN",
    "RUN_REQUEST",
    "DueRuns",
    "due_runs",
    "end_run",
    "evolve_run",
    "mark_run_told",
    "restore_run",
    "run_row",
    "run_rows",
    "start_run",
]

RUN: Final = "run"
"""The kind of the rows of runs."""

RUN_REQUEST: Final = "agent-tool:"
"""How the request id of a run's turn begins, in the sub-agent."""

RECENT_RUNS: Final = 128
"""How many ended runs are kept: pages show them, and their results are known without asking the sub-agent."""


class _StoredRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a run's row."""

    started: RunStarted
    started_at: Millis
    ended: RunEnded | None = None
    ended_at: Millis | None = None
    hook_due: bool = False


@dataclass(frozen=True, slots=True)
class DueRuns:
    """The runs that should be watched, those of them that should stop, and the ended runs whose hook is due."""

    watch: tuple[RunId, ...] = ()
    stop: tuple[RunId, ...] = ()
    tell: tuple[RunId, ...] = ()


# -- deciding ----------------------------------------------------------------------------------------------------------


def start_run(state: State, command: StartRun, rules: Rules) -> list[Event]:
    """Return the start of a run; nothing if it runs or has ended. An interrupted run starts again.

    A run that may not start is recorded with its error, so that clients see why.
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
    return [started, RunEnded(command.run, "error", error=refusal, hook_due=hook, forgets=_run_to_remove(state))]


def _why_too_many(state: State, rules: Rules) -> str | None:
    running = sum(run.is_open for run in _runs(state))
    if rules.max_runs is None or running < rules.max_runs:
        return None
    return f"AgentToolLimits.max_concurrent ({rules.max_runs}) exceeded: wait for a run to end, or raise the limit"


def end_run(state: State, command: EndRun, rules: Rules) -> list[Event]:
    """Return the end of a run: a final one, or an interruption, after which the run may start again."""
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
            forgets=_run_to_remove(state),
            usage=command.usage,
        )
    ]


def mark_run_told(state: State, command: MarkRunTold) -> list[Event]:
    run = state.runs.get(command.run)
    return [RunTold(command.run)] if run is not None and run.hook_due else []


def due_runs(state: State) -> DueRuns:
    """Return the work that runs need."""
    watch = tuple(run.id for run in _runs(state) if run.is_open)
    stop = tuple(run for run in watch if _is_orphaned(state, state.runs[run]))
    return DueRuns(watch, stop, tuple(run.id for run in _runs(state) if run.hook_due))


def _is_orphaned(state: State, run: RunState) -> bool:
    within = run.started.within
    return within is not None and within not in state.open and not run.started.is_detached


def _run_to_remove(state: State) -> RunId | None:
    """Return the ended run to remove when there are too many: the oldest whose hook is not due.

    Not a run of an open turn: its usage is part of the turn's usage.
    """
    ended = [
        run.id for run in _runs(state) if not run.is_open and not run.hook_due and not _is_of_open_turn(state, run)
    ]
    return ended[0] if len(ended) >= RECENT_RUNS else None


def _is_of_open_turn(state: State, run: RunState) -> bool:
    return run.started.within in state.open


def _runs(state: State) -> list[RunState]:
    return list(state.runs.values())


# -- events and rows ---------------------------------------------------------------------------------------------


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
    """Return the rows that the event changed."""
    rows = [run_row(state, event.run)]
    if isinstance(event, RunEnded) and event.forgets is not None:
        rows.append(run_row(state, event.forgets))
    return rows


def run_row(state: State, run: RunId) -> KeptRow:
    """Return the row of a run; without a body if the run was removed."""
    found = state.runs.get(run)
    if found is None:
        return KeptRow(RUN, run, None)
    kept = _StoredRun(found.started, found.started_at, found.ended, found.ended_at, found.hook_due)
    return KeptRow(RUN, run, msgspec.json.encode(kept))


def restore_run(row: KeptRow) -> RunState:
    """Return the run of a row.

    Raises:
        ValueError: the row is unreadable.
    """
    if row.body is None:
        raise ValueError("the row has no body")
    kept = msgspec.json.decode(row.body, type=_StoredRun)
    return RunState(kept.started, kept.started_at, kept.ended, kept.ended_at, kept.hook_due)
