"""Background work as agents' own code knows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ...events import FiberOutcome, Identity
from ...ids import FiberId, Millis

__all__ = ["FiberRecord", "FiberWork", "RecoversFibers", "RunningFiber"]


@dataclass(frozen=True, slots=True)
class FiberRecord:
    """A fiber as it stands: without an outcome it is open. `attempts` counts how often it was started or recovered."""

    id: FiberId
    name: str
    outcome: FiberOutcome | None
    snapshot: Any
    started_at: Millis
    attempts: int
    detail: str | None = None
    ended_at: Millis | None = None
    principal: Identity | None = None


FiberWork = Callable[[FiberRecord], Awaitable[Any]]
"""A fiber's own code, given the fiber as it stands when it begins."""


class RunningFiber(Protocol):
    """A fiber whose code runs in this process."""

    async def result(self) -> Any:
        """Wait for its end; returns or raises what its code does. Safe to cancel: it goes on.

        Raises:
            FiberCancelled: it was cancelled.
            AgentStopped: it was interrupted; the next owner of the agent recovers it.
        """
        ...


@runtime_checkable
class RecoversFibers(Protocol):
    """A responder whose agent recovers fibers of a process that died."""

    async def on_fiber_recovered(self, fiber: FiberRecord) -> None:
        """Start the fiber again, or return to let it end as interrupted; raising means to be asked again later."""
        ...
