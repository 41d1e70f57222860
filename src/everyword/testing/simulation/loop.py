"""An event loop without a clock and without I/O; the next callback is drawn from a seed.

It keeps to what asyncio promises (every ready callback runs, later, on one thread) and to nothing more: with
`shuffles` the order of ready callbacks is drawn, without it they run in order of arrival. Timers of the loop itself
expire when no callback is ready; agents read the time from a `ManualClock`.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.base_events import BaseEventLoop
from collections import deque
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

__all__ = ["SeededLoop", "owner_of_tasks"]

owner_of_tasks: ContextVar[list[asyncio.Task[Any]] | None] = ContextVar("owner_of_tasks", default=None)
"""The list of tasks that were started in this context, in order, so that a server run can be ended as a whole."""


class SeededLoop(BaseEventLoop):
    """Runs one ready callback at a time. `steps` counts them; more than `most_steps` raises `TimeoutError`, as does
    a loop in which nothing can run and a task waits."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, chance: Random, *, shuffles: bool, most_steps: int) -> None:
        super().__init__()
        self.steps = 0
        self._chance, self._shuffles, self._most_steps = chance, shuffles, most_steps
        self._passed = 0.0
        self._quiet: list[asyncio.Future[None]] = []
        self.set_task_factory(_start)

    def time(self) -> float:
        return self._passed

    async def quiet(self) -> None:
        """Wait until no other task can run."""
        waiting: asyncio.Future[None] = self.create_future()
        self._quiet.append(waiting)
        await waiting

    def allow(self, steps: int) -> None:
        """Run so many steps more at least, whatever was used up."""
        self._most_steps = self.steps + steps

    async def end_all(self) -> None:
        """Cancel all other tasks, and wait for their end."""
        while left := [task for task in asyncio.all_tasks(self) if task is not asyncio.current_task(self)]:
            for task in left:
                task.cancel()
            await self.quiet()

    def _run_once(self) -> None:
        if not self._ready:
            self._find_work()
        self.steps += 1
        if self.steps > self._most_steps:
            raise TimeoutError(f"still busy after {self._most_steps} steps")
        place = self._chance.randrange(len(self._ready)) if self._shuffles else 0
        handle = self._ready[place]
        del self._ready[place]
        if not handle.cancelled():
            handle._run()

    def _find_work(self) -> None:
        if self._quiet:
            self._quiet.pop().set_result(None)
            return
        while self._scheduled:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined] # the base class keeps count by it
            if not timer.cancelled():
                self._passed = max(self._passed, timer.when())
                self._ready.append(timer)
                return
        raise TimeoutError("every task waits, and no timer is left")

    def _write_to_self(self) -> None:
        """Do nothing: no other thread wakes this loop."""


def _start(loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None) -> asyncio.Task[Any]:
    context = context if context is not None else copy_context()
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
    owner = context.get(owner_of_tasks)
    if owner is not None:
        owner.append(task)
    return task
