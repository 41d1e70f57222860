"""A store that stops the world at a chosen append: what a `kill -9` looks like from inside one process."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from ..log.base import Batch, LogStore

__all__ = ["CrashingLog"]


class CrashingLog:
    """Wraps a store; at append number `at` everything through it hangs, as for a process that is no more.

    With `when="before"` the batch is lost, with `when="after"` it is committed but nobody was told. Wait for
    `crashed`, drop everything that used this wrapper, and open the wrapped store anew. `appends` counts.
    """

    def __init__(self, store: LogStore, at: int | None = None, when: Literal["before", "after"] = "before") -> None:
        self.crashed = asyncio.Event()
        self.appends = 0
        self._store, self._at, self._when = store, at, when

    async def append(self, batch: Batch) -> None:
        """Append to the wrapped store, unless this is where the process dies."""
        await self._die_if_dead()
        self.appends += 1
        if self.appends == self._at:
            if self._when == "after":
                await self._store.append(batch)
            self.crashed.set()
            await self._die_if_dead()
        await self._store.append(batch)
        await self._die_if_dead()

    async def aclose(self) -> None:
        """Leave the wrapped store as it is: a dead process closes nothing."""

    async def _die_if_dead(self) -> None:
        if self.crashed.is_set():
            await asyncio.Event().wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
