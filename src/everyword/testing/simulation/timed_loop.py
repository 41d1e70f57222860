"""A seeded loop with one true time for all nodes: it passes only when nothing can run, from timer to timer."""

from __future__ import annotations

import asyncio
import heapq
from contextvars import ContextVar
from random import Random
from typing import Any

from ...ids import Millis
from .loop import SeededLoop, owner_of_tasks

__all__ = ["BEGIN", "OwnClock", "TimedLoop", "TrueClock", "own_clock"]

BEGIN = 1_700_000_000_000
"""Milliseconds since 1970 when a simulation begins."""


class OwnClock:
    """The clocks of one node's machine: a count of seconds, and a wall clock that may be wrong."""

    def __init__(self, since: float, skew: float) -> None:
        self._time = asyncio.get_running_loop().time
        self._since, self._skew = since, skew

    def seconds(self) -> float:
        return self._time() + self._since

    def wall(self) -> float:
        return BEGIN / 1000 + self._time() + self._skew


own_clock: ContextVar[OwnClock] = ContextVar("own_clock")
"""The clocks of the node whose code runs."""


class TimedLoop(SeededLoop):
    """Holds back what belongs to a paused node; `owner_of_tasks` tells the node of a callback."""

    def __init__(self, chance: Random, *, shuffles: bool, most_steps: int) -> None:
        super().__init__(chance, shuffles=shuffles, most_steps=most_steps)
        self._held: dict[int, list[asyncio.Handle]] = {}

    def pause(self, owner: list[asyncio.Task[Any]]) -> None:
        """Run nothing of this owner until `resume`."""
        self._held.setdefault(id(owner), [])

    def resume(self, owner: list[asyncio.Task[Any]]) -> None:
        self._ready.extend(self._held.pop(id(owner), ()))

    def is_paused(self, owner: list[asyncio.Task[Any]]) -> bool:
        return id(owner) in self._held

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due meanwhile."""
        until = self._passed + seconds
        await self.quiet()
        while self._scheduled and self._scheduled[0].when() <= until:
            self._pass_to(self._scheduled[0].when())
            await self.quiet()
        self._passed = until

    def _pass_to(self, time: float) -> None:
        self._passed = max(self._passed, time)
        while self._scheduled and self._scheduled[0].when() <= time:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined] # the base class keeps count by it
            if not timer.cancelled():
                self._ready.append(timer)

    def _find_work(self) -> None:
        if not self._quiet and self._scheduled:
            self._pass_to(self._scheduled[0].when())
            if not self._ready:  # all of them were cancelled
                self._find_work()
        else:
            super()._find_work()

    def _run_once(self) -> None:
        if self._held:
            self._hold_back()
        super()._run_once()

    def _hold_back(self) -> None:
        """Put aside what belongs to paused nodes, until something else can run."""
        while True:
            held = [handle for handle in self._ready if self._owner_of(handle) in self._held]
            for handle in held:
                self._ready.remove(handle)
                self._held[self._owner_of(handle)].append(handle)
            if self._ready:
                return
            self._find_work()

    @staticmethod
    def _owner_of(handle: asyncio.Handle) -> int:
        context: Any = handle._context  # type: ignore[attr-defined] # the only place that has it
        return id(context.get(owner_of_tasks))


class TrueClock:
    """The time of the world, as a `runtime.clock.Clock`."""

    def __init__(self, loop: TimedLoop) -> None:
        self._loop = loop

    def now(self) -> Millis:
        return Millis(BEGIN + int(self._loop.time() * 1000))

    async def sleep_until(self, at: Millis) -> None:
        while (left := at - self.now()) > 0:  # noqa: ASYNC110 - waiting for time is the point
            await asyncio.sleep(left / 1000)
