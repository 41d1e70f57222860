"""A store that simulates `kill -9` at a chosen append, inside one process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Literal, TypeVar

from ..ids import AgentId, Epoch
from ..log.base import Batch, LogStore, OneBatchAtATime

__all__ = ["CrashingLog"]

T = TypeVar("T")


class CrashingLog(OneBatchAtATime):
    """Wraps a store; from append number `at` on every call hangs, as if the process were dead.

    With `when="before"` the batch is lost, with `when="after"` it is committed but the caller never learns it. Wait for
    `crashed`, cancel everything that used this wrapper, close the wrapped store and open it again. `appends` counts
    the appends, including the one that crashed.
    """

    def __init__(self, store: LogStore, at: int | None = None, when: Literal["before", "after"] = "before") -> None:
        self.crashed = asyncio.Event()
        self.appends = 0
        self.wrapped = store
        self._at, self._when = at, when

    async def append_one(self, batch: Batch) -> None:
        """Append to the wrapped store, or crash here."""
        await self._commit(self._append_to_wrapped, batch)

    async def _append_to_wrapped(self, batch: Batch) -> None:
        await self.wrapped.append([batch])[0]

    async def destroy(self, agent: AgentId, epoch: Epoch) -> None:
        """Destroy an agent in the wrapped store; it counts as an append, and may crash like one."""
        await self._commit(self.wrapped.destroy, agent, epoch)

    async def _commit(self, commit: Callable[..., Awaitable[None]], *given: Any) -> None:
        await self._hang_if_crashed()
        self.appends += 1
        is_last = self.appends == self._at
        if not is_last or self._when == "after":
            await commit(*given)
        if is_last:
            self.crashed.set()
        await self._hang_if_crashed()

    async def aclose(self) -> None:
        """Close the wrapped store, unless crashed: a dead process closes nothing."""
        if not self.crashed.is_set():
            await self.wrapped.aclose()

    async def _hang_if_crashed(self) -> None:
        if self.crashed.is_set():
            await asyncio.Event().wait()

    def _hanging(self, method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
        @wraps(method)
        async def call(*args: Any, **kwargs: Any) -> T:
            await self._hang_if_crashed()
            result = await method(*args, **kwargs)
            await self._hang_if_crashed()
            return result

        return call

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        return self._hanging(found) if inspect.iscoroutinefunction(found) else found
