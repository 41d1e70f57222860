"""How long an attempt may be silent: a model that says nothing for too long is given up (and asked again)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from ..errors import Stalled
from ..ids import Millis
from .clock import Clock

__all__ = ["StallWatchdog"]


class StallWatchdog:
    """An async context manager that interrupts its block with `Stalled` after `limit` milliseconds of silence."""

    def __init__(self, clock: Clock, limit: int | None) -> None:
        self._clock, self._limit = clock, limit
        self._last = Millis(0)
        self._busy = 0
        self._watch: asyncio.Task[None] | None = None
        self._is_spent = False

    def heard(self) -> None:
        """Note that the model said something."""
        if self._limit is not None:
            self._last = self._clock.now()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Suspend the watch while something other than the model is awaited."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self.heard()

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        if self._limit is not None and task is not None:
            self.heard()
            self._watch = asyncio.create_task(self._look(task, self._limit), name=f"watch of {task.get_name()}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is None:
            return
        self._watch.cancel()
        await asyncio.wait([self._watch])
        task = asyncio.current_task()
        if self._is_spent and task is not None and task.uncancel() == 0 and isinstance(exc, asyncio.CancelledError):
            raise Stalled(f"the model was silent for {(self._limit or 0) / 1000:g} s") from None

    async def _look(self, task: asyncio.Task[None], limit: int) -> None:
        while True:
            await self._clock.sleep_until(Millis((self._clock.now() if self._busy else self._last) + limit))
            if not self._busy and self._clock.now() - self._last >= limit:
                self._is_spent = True
                task.cancel()
                return
