"""Wakes agents that are due, unloads idle ones, runs retention, and checks the files of the store (R-22)."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..errors import LogError
from ..ids import AgentId, Millis, root_id
from .attachment_sweep import AttachmentSweep

if TYPE_CHECKING:
    from .directory import Directory

__all__ = ["WakeScheduler"]

log = logging.getLogger("everyword.runtime")

HORIZON = 10 * 60 * 1000
"""How far ahead wake times of unloaded agents are kept in memory; the table has the rest."""

MOST_DUE = 1_000_000
"""How many wake times are read at once: all of them, on any machine that could run so many agents."""

PICK_UP = 16
"""How many agents are activated at a time when many are due, as after a crash."""


class WakeScheduler:
    """Sleeps until the next thing is due, and does it. Its memory is a cache of the wake table.

    Wake times are in a heap; an entry counts only if it is still the wake time of its agent.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._due: dict[AgentId, Millis] = {}
        self._heap: list[tuple[Millis, AgentId]] = []
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._refill_at = Millis(0)
        self._sweep_at = Millis(0)

    async def start(self) -> None:
        """Wake everything that is due now, then keep time in the background."""
        await self._refill()
        await self._wake_due()
        self._tasks = [
            asyncio.create_task(self._keep_time(), name="timekeeper"),
            asyncio.create_task(self._keep_retention(), name="retention"),
            asyncio.create_task(self._keep_watch(), name="watch over the store"),
        ]
        if self._directory.attachments is not None:
            sweeping = AttachmentSweep(self._directory).keep_sweeping()
            self._tasks.append(asyncio.create_task(sweeping, name="sweep of attachments"))

    async def stop(self) -> None:
        # A store may answer a cancellation with an error: asyncpg does, if the connection is lost in a transaction.
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def remember(self, agent: AgentId, at: Millis) -> None:
        """Wake the agent at that time, and not when it last wanted to be woken."""
        self._due[agent] = at
        heapq.heappush(self._heap, (at, agent))
        if self._heap[0] == (at, agent):
            self._changed.set()  # earlier than the time that it sleeps until

    def forget(self, agent: AgentId) -> None:
        """Do not wake the agent."""
        self._due.pop(agent, None)

    async def _keep_time(self) -> None:
        clock, idle_after = self._directory.clock, self._directory.settings.idle_after
        while not self._is_stopping:
            self._changed.clear()
            if clock.now() >= self._refill_at:
                await self._refill()
            await self._wake_due()
            if clock.now() >= self._sweep_at:
                self._directory.unload_idle()
                self._sweep_at = Millis(clock.now() + max(idle_after // 4, 1))
            first = [self._heap[0][0]] if self._heap else []
            if not self._is_stopping:
                await self._sleep(min(self._sweep_at, self._refill_at, *first))

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
        """Read the wake times of the near future; of a store that nodes share, those that have no owner."""
        now, ownership = self._directory.clock.now(), self._directory.ownership
        try:
            if ownership is None:
                due: Sequence[tuple[AgentId, Millis]] = await self._directory.store.due(
                    Millis(now + HORIZON), limit=MOST_DUE
                )
                self._refill_at = Millis(now + HORIZON // 2)
            else:
                due, self._refill_at = await ownership.claim(now)
        except LogError as exc:
            log.error("unable to read the wake table; trying again: %s", exc)
            self._refill_at = Millis(now + self._directory.settings.retry_after)
            return
        self.add(due)

    def add(self, wakes: Sequence[tuple[AgentId, Millis]]) -> None:
        """Wake these agents at their times, unless they are loaded and keep their time themselves."""
        for agent, at in wakes:
            if self._directory.peek(agent) is None and agent not in self._due:
                self.remember(agent, at)

    def clear(self) -> None:
        """Forget all wake times, and read them again at once."""
        self._due.clear()
        self._heap.clear()
        self.look_again()

    def knows(self, root: AgentId) -> bool:
        """Tell whether a root agent or one below it is to be woken."""
        return any(root_id(agent) == root for agent in self._due)

    def forget_families(self, roots: Collection[AgentId]) -> list[tuple[AgentId, Millis]]:
        """Do not wake these root agents and those below them; return when they were to be woken.

        One pass for all: thousands may be given back at once.
        """
        return [(agent, self._due.pop(agent)) for agent in list(self._due) if root_id(agent) in roots]

    def look_again(self) -> None:
        """Read the wake table at once."""
        self._refill_at = Millis(0)
        self._changed.set()

    async def _wake_due(self) -> None:
        now, due = self._directory.clock.now(), list[AgentId]()
        while self._heap and self._heap[0][0] <= now:
            at, agent = heapq.heappop(self._heap)
            if self._due.get(agent) == at:
                del self._due[agent]
                due.append(agent)
        for first in range(0, len(due), PICK_UP):
            await asyncio.gather(*(self._directory.wake(agent) for agent in due[first : first + PICK_UP]))

    async def _keep_watch(self) -> None:
        files, clock = self._directory.store.files, self._directory.clock
        every = self._directory.settings.store_check_every
        while files is not None:
            try:
                files.check()
            except LogError:
                return  # the store has logged what happened, and refuses everything from now on
            await clock.sleep_until(Millis(clock.now() + every))

    async def _keep_retention(self) -> None:
        clock, settings = self._directory.clock, self._directory.settings
        while True:
            try:
                more = True
                while more:
                    more = (await self._directory.store.prune(Millis(clock.now() - settings.retention))).more
            except LogError as exc:
                if self._is_stopping:
                    return
                log.error("unable to prune; trying again later: %s", exc)
            await clock.sleep_until(Millis(clock.now() + settings.retention_every))
