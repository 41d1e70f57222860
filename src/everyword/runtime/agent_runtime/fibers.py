"""Background work, for an agent's own code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

from msgspec import Raw

from ...core.commands import EndFiber, StashFiber
from ...ids import AgentId, FiberId
from ...messages.json_values import encode_json
from ..api import FiberRecord, FiberWork
from ..directory import Directory
from ..fiber_runner import FiberRun, fiber_records

__all__ = ["FibersAccess"]


class FibersAccess:
    """The background work of one agent."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def start(
        self, fiber: FiberId, name: str, work: FiberWork, context: Context | None = None
    ) -> FiberRun | FiberRecord:
        """Record a fiber and run its code; one that runs is returned as it is, and of one that has ended its record."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.reconciler.fibers.start(fiber, name, work, context)

    async def stash(self, fiber: FiberId, snapshot: Any) -> None:
        """Commit a checkpoint in the place of the one before.

        Raises:
            Rejected: the fiber has ended.
        """
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(StashFiber(fiber, Raw(encode_json(snapshot))))

    async def cancel(self, fiber: FiberId, detail: str | None = None) -> bool:
        """End a fiber and stop its code; False when it has ended already."""
        async with self._directory.attach(self._agent) as loaded:
            return bool(await loaded.actor.insist(EndFiber(fiber, "cancelled", detail)))

    async def all(self) -> Sequence[FiberRecord]:
        """Return the fibers that are open, and the newest of those that have ended, oldest first."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(fiber_records)

    async def hold(self) -> Callable[[], None]:
        """Load the agent and keep it loaded until the returned function is called."""
        return await self._directory.hold(self._agent)
