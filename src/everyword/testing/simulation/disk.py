"""The store of a life that may end: everything through it takes its time, may fail, and stops with the life."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from random import Random
from typing import Any, Literal

from ...errors import LogUnavailable
from ...log.base import Batch, OneBatchAtATime
from ...log.memory import MemoryLog

__all__ = ["Fate", "MortalLog"]

Fate = Literal["commit", "crash-before", "crash-after", "fail"]


class MortalLog(OneBatchAtATime):
    """Wraps the log that outlives every life. `fate` says what becomes of an append, `on_commit` hears of each one."""

    def __init__(
        self,
        kept: MemoryLog,
        chance: Random,
        *,
        fate: Callable[[Batch], Fate],
        may_read: Callable[[], bool],
        on_commit: Callable[[Batch], None],
        on_crash: Callable[[], None],
    ) -> None:
        self.is_dead = False
        self._kept, self._chance = kept, chance
        self._fate, self._may_read, self._on_commit, self._on_crash = fate, may_read, on_commit, on_crash

    async def append_one(self, batch: Batch) -> None:
        await self._linger()
        fate = self._fate(batch)
        if fate == "fail":
            raise LogUnavailable("unable to append; the disk is full")
        if fate != "crash-before":
            self._kept.commit(batch)
            self._on_commit(batch)
        if fate != "commit":
            self.is_dead = True
            self._on_crash()
        await self._linger()

    async def aclose(self) -> None:
        if not self.is_dead:
            await self._kept.aclose()

    async def _linger(self) -> None:
        """Take some time; for ever, once the life is over."""
        for _ in range(self._chance.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)
        if self.is_dead:
            await asyncio.get_running_loop().create_future()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kept, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._linger()
            if name != "open" and not self._may_read():
                raise LogUnavailable(f"unable to {name}; the disk is gone for a moment")
            result = await found(*args, **kwargs)
            await self._linger()
            return result

        return call
