"""Fibers: background work that is recorded when it starts, at each checkpoint and when it ends.

A fiber whose process crashed is recovered by the next process.
"""

from __future__ import annotations

from typing import Final, assert_never

import msgspec
from msgspec import Raw

from ..errors import Rejected
from ..events import ABSENT, Event, FiberEnded, FiberOutcome, FiberPaused, FiberStarted, FiberStashed, Identity
from ..ids import FiberId, Millis
from ..rows import KeptRow
from .commands import EndFiber, FiberCommand, PauseFiber, RecoverFiber, StartFiber, StashFiber
from .state import FiberState, State

__all__ = [
    "FIBER",
    "KEPT_FIBERS",
    "MAX_ATTEMPTS",
    "decide_fiber",
    "end_fiber",
    "evolve_fiber",
    "fiber_row",
    "fiber_rows",
    "open_fibers",
    "recover_fiber",
    "restore_fiber",
    "start_fiber",
    "stash_fiber",
]

FIBER: Final = "fiber"
"""The kind of the rows of fibers."""

MAX_ATTEMPTS: Final = 5
"""How often a fiber is started and recovered before it is set aside: it may be the fiber that crashes the process."""

KEPT_FIBERS: Final = 100
"""How many ended fibers are kept, so that their ids stay taken and their outcomes can be read."""


FiberEvent = FiberStarted | FiberStashed | FiberPaused | FiberEnded


class _StoredFiber(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a fiber's row."""

    name: str
    started_at: Millis
    attempt: int = 1
    snapshot: Raw = ABSENT
    outcome: FiberOutcome | None = None
    detail: str | None = None
    ended_at: Millis | None = None
    principal: Identity | None = None


# -- deciding ----------------------------------------------------------------------------------------------------------


def decide_fiber(state: State, command: FiberCommand) -> list[Event]:
    """Return the events that a command about fibers causes."""
    match command:
        case StartFiber():
            return start_fiber(state, command)
        case RecoverFiber():
            return recover_fiber(state, command)
        case PauseFiber():
            return [FiberPaused(command.fiber)] if _open(state, command.fiber).attempt > 0 else []
        case StashFiber():
            return stash_fiber(state, command)
        case EndFiber():
            return end_fiber(state, command)
        case _:
            assert_never(command)


def start_fiber(state: State, command: StartFiber) -> list[Event]:
    """Return the start of a fiber; nothing if its id was used before."""
    return (
        []
        if command.fiber in state.fibers
        else [FiberStarted(command.fiber, command.name, principal=command.principal)]
    )


def recover_fiber(state: State, command: RecoverFiber) -> list[Event]:
    """Return the next start of a fiber whose process crashed, or its end after too many attempts."""
    fiber = _open(state, command.fiber)
    if fiber.attempt >= MAX_ATTEMPTS:
        detail = f"{fiber.attempt} attempts began and none of them ended"
        return [_ended(state, fiber, "set-aside", detail)]
    return [FiberStarted(fiber.id, fiber.name, fiber.attempt + 1)]


def stash_fiber(state: State, command: StashFiber) -> list[Event]:
    return [FiberStashed(_open(state, command.fiber).id, command.snapshot)]


def end_fiber(state: State, command: EndFiber) -> list[Event]:
    """Return the end of a fiber; nothing if it has ended or is unknown: the first end counts."""
    fiber = state.fibers.get(command.fiber)
    if fiber is None or fiber.outcome is not None:
        return []
    return [_ended(state, fiber, command.outcome, command.detail)]


def open_fibers(state: State) -> tuple[FiberId, ...]:
    """Return the fibers that should be running."""
    return tuple(fiber.id for fiber in state.fibers.values() if fiber.outcome is None)


def _ended(state: State, fiber: FiberState, outcome: FiberOutcome, detail: str | None) -> FiberEnded:
    over = [each for each in state.fibers.values() if each.outcome is not None]
    oldest = min(over, key=lambda each: (each.ended_at or 0, each.id)) if len(over) >= KEPT_FIBERS else None
    return FiberEnded(fiber.id, outcome, detail, forgets=oldest.id if oldest is not None else None)


def _open(state: State, fiber: FiberId) -> FiberState:
    found = state.fibers.get(fiber)
    if found is None or found.outcome is not None:
        raise Rejected(f"unable to find fiber {fiber!r}; it has ended or was never started")
    return found


# -- events and rows ---------------------------------------------------------------------------------------------


def evolve_fiber(state: State, event: FiberEvent, at: Millis) -> None:
    """Apply an event to the fibers."""
    fiber = state.fibers.get(event.fiber)
    if isinstance(event, FiberStarted):
        if fiber is None:
            state.fibers[event.fiber] = FiberState(
                event.fiber, event.name, at, event.attempt, principal=event.principal
            )
        else:
            fiber.attempt = event.attempt
        return
    if fiber is None:
        return
    if isinstance(event, FiberPaused):
        fiber.attempt -= 1
        return
    if isinstance(event, FiberStashed):
        snapshot = bytes(event.snapshot)
        fiber.snapshot = snapshot if snapshot != b"null" else None
        return
    fiber.outcome, fiber.detail, fiber.ended_at = event.outcome, event.detail, at
    if event.forgets is not None:
        state.fibers.pop(event.forgets, None)


def fiber_rows(state: State, event: FiberEvent) -> list[KeptRow]:
    """Return the rows that the event changed."""
    rows = [fiber_row(state, event.fiber)]
    if isinstance(event, FiberEnded) and event.forgets is not None:
        rows.append(fiber_row(state, event.forgets))
    return rows


def restore_fiber(row: KeptRow) -> FiberState:
    """Return the fiber of a row."""
    kept = msgspec.json.decode(row.body or b"", type=_StoredFiber)
    snapshot = bytes(kept.snapshot) if kept.snapshot is not ABSENT else None
    fiber = FiberState(FiberId(row.key), kept.name, kept.started_at, kept.attempt, snapshot, principal=kept.principal)
    fiber.outcome, fiber.detail, fiber.ended_at = kept.outcome, kept.detail, kept.ended_at
    return fiber


def fiber_row(state: State, fiber: FiberId) -> KeptRow:
    """Return the row of a fiber; without a body if the fiber was removed."""
    found = state.fibers.get(fiber)
    if found is None:
        return KeptRow(FIBER, fiber, None)
    snapshot = Raw(found.snapshot) if found.snapshot is not None else ABSENT
    kept = _StoredFiber(
        name=found.name,
        started_at=found.started_at,
        attempt=found.attempt,
        snapshot=snapshot,
        outcome=found.outcome,
        detail=found.detail,
        ended_at=found.ended_at,
        principal=found.principal,
    )
    return KeptRow(FIBER, fiber, msgspec.json.encode(kept))
