"""The store of a simulated server: operations take time, may fail, and never return after a crash."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from random import Random
from typing import Any, Literal

from ...errors import LogUnavailable
from ...log.base import Batch, OneBatchAtATime
from ...log.memory import MemoryLog

__all__ = ["AppendOutcome", "FaultyLog"]

AppendOutcome = Literal["commit", "crash-before", "crash-after", "fail"]


class FaultyLog(OneBatchAtATime):
    """Wraps the log that survives every crash. `outcome` decides each append, `on_commit` is called for each commit."""

    def __init__(
        self,
        kept: MemoryLog,
        chance: Random,
        *,
        outcome: Callable[[Batch], AppendOutcome],
        may_read: Callable[[], bool],
        on_commit: Callable[[Batch], None],
        on_crash: Callable[[], None],
    ) -> None:
        self.is_dead = False
        self._kept, self._chance = kept, chance
        self._append_outcome, self._may_read, self._on_commit, self._on_crash = outcome, may_read, on_commit, on_crash

    async def append_one(self, batch: Batch) -> None:
        await self._take_time()
        outcome = self._append_outcome(batch)
        if outcome == "fail":
            raise LogUnavailable("unable to append; the disk is full")
        if outcome != "crash-before":
            self._kept.commit(batch)
            self._on_commit(batch)
        if outcome != "commit":
            self.is_dead = True
            self._on_crash()
        await self._take_time()

    async def aclose(self) -> None:
        if not self.is_dead:
            await self._kept.aclose()

    async def _take_time(self) -> None:
        """Wait some iterations of the loop; for ever after a crash."""
        for _ in range(self._chance.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)
        if self.is_dead:
            await asyncio.get_running_loop().create_future()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kept, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._take_time()
            if name != "open" and not self._may_read():
                raise LogUnavailable(f"unable to {name}; the disk is gone for a moment")
            result = await found(*args, **kwargs)
            await self._take_time()
            return result

        return call
