"""The only timer: wakes agents whose time has come, unloads idle ones, and runs retention little by little (R-22)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..errors import LogError
from ..ids import AgentId, Millis

if TYPE_CHECKING:
    from .directory import Directory

__all__ = ["Timekeeper"]

log = logging.getLogger("holdfast.runtime")

HORIZON = 10 * 60 * 1000
"""How far ahead wake times of unloaded agents are kept in memory; the table has the rest."""

MOST_DUE = 1_000_000
"""How many wake times are read at once: all of them, on any machine that could run so many agents."""

PICK_UP = 16
"""How many agents are activated at a time when many are due, as after a crash."""


class Timekeeper:
    """Sleeps until the next thing is due, and does it. Its memory is a cache of the wake table."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._due: dict[AgentId, Millis] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._read_until = Millis(0)

    async def start(self) -> None:
        """Wake everything that is due now, then keep time in the background."""
        await self._refill()
        await self._wake_due()
        self._tasks = [
            asyncio.create_task(self._keep_time(), name="timekeeper"),
            asyncio.create_task(self._keep_retention(), name="retention"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def remember(self, agent: AgentId, at: Millis) -> None:
        """Wake an unloaded agent at that time."""
        self._due[agent] = at
        self.look()

    def look(self) -> None:
        """Something changed that may be due earlier than what is slept for."""
        self._changed.set()

    async def _keep_time(self) -> None:
        clock = self._directory.clock
        while True:
            self._changed.clear()
            if clock.now() + HORIZON // 2 >= self._read_until:
                await self._refill()
            await self._wake_due()
            idle = self._directory.unload_idle()
            candidates = [*self._due.values(), *self._loaded_wakes(), Millis(self._read_until - HORIZON // 2)]
            if idle is not None:
                candidates.append(idle)
            await self._sleep(min(candidates))

    def _loaded_wakes(self) -> list[Millis]:
        now = self._directory.clock.now()
        wakes = (loaded.agency.wake for loaded in self._directory.loaded())
        return [wake for wake in wakes if wake is not None and wake > now]

    async def _sleep(self, until: Millis) -> None:
        """Wait for the time, or for a change, whichever is first."""
        sleeping = asyncio.create_task(self._directory.clock.sleep_until(until))
        changing = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([sleeping, changing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            changing.cancel()

    async def _refill(self) -> None:
        now = self._directory.clock.now()
        try:
            due = await self._directory.store.due(Millis(now + HORIZON), limit=MOST_DUE)
        except LogError as exc:
            log.error("unable to read the wake table; trying again: %s", exc)
            self._read_until = Millis(now + HORIZON // 2 + self._directory.settings.retry_after)
            return
        self._read_until = Millis(now + HORIZON)
        for agent, at in due:
            if self._directory.peek(agent) is None:
                self._due.setdefault(agent, at)

    async def _wake_due(self) -> None:
        now = self._directory.clock.now()
        due = [agent for agent, at in self._due.items() if at <= now]
        for agent in due:
            del self._due[agent]
        for first in range(0, len(due), PICK_UP):
            await asyncio.gather(*(self._directory.wake(agent) for agent in due[first : first + PICK_UP]))
        for loaded in self._directory.loaded():
            wake = loaded.agency.wake
            if wake is not None and 0 < wake <= now:
                loaded.agency.look_again()

    async def _keep_retention(self) -> None:
        clock, settings = self._directory.clock, self._directory.settings
        while True:
            try:
                more = True
                while more:
                    more = (await self._directory.store.prune(Millis(clock.now() - settings.retention))).more
            except LogError as exc:
                log.error("unable to prune; trying again later: %s", exc)
            await clock.sleep_until(Millis(clock.now() + settings.retention_every))
