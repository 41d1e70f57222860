"""Background work of an agent: `runtime.api.FiberPort` over its own mailbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

from msgspec import Raw

from ..core.commands import EndFiber, StashFiber
from ..ids import AgentId, FiberId
from ..messages.json_values import encode_json
from .api import FiberRecord, FiberWork
from .directory import Directory
from .fibers import FiberRun, fiber_records

__all__ = ["FiberDesk"]


class FiberDesk:
    """Implements `FiberPort` for one agent of a directory."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def start(
        self, fiber: FiberId, name: str, work: FiberWork, context: Context | None = None
    ) -> FiberRun | FiberRecord:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.agency.fibers.start(fiber, name, work, context)

    async def stash(self, fiber: FiberId, snapshot: Any) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(StashFiber(fiber, Raw(encode_json(snapshot))))

    async def cancel(self, fiber: FiberId, detail: str | None = None) -> bool:
        async with self._directory.attach(self._agent) as loaded:
            return bool(await loaded.actor.insist(EndFiber(fiber, "cancelled", detail)))

    async def all(self) -> Sequence[FiberRecord]:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(fiber_records)

    async def hold(self) -> Callable[[], None]:
        return await self._directory.hold(self._agent)
