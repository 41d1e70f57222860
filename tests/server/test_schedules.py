"""Schedules of a class in a whole app, over a file, with a process that is killed between two releases."""

from __future__ import annotations

import asyncio
from pathlib import Path

from everyword import Agent, Every, callable, scheduled
from everyword.client import AgentClient, Backoff
from everyword.testing import LocalServer, ManualClock
from tests.timeouts import PATIENCE


class Notes:
    """What the jobs of all processes did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._more = asyncio.Event()

    def add(self, what: str) -> None:
        self.done.append(what)
        self._more.set()

    async def until(self, *done: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while sorted(self.done) != sorted(done):
                self._more.clear()
                await self._more.wait()


class Base(Agent):
    @callable
    async def plans(self) -> list[str]:
        return [each.callback for each in await self.jobs.list(queued=False)]


def first_release(notes: Notes) -> type[Base]:
    class Shop(Base):
        @scheduled(Every(hours=1))
        async def sweep(self) -> None:
            notes.add("swept")

        @scheduled(Every(hours=2))
        async def report(self) -> None:
            notes.add("reported")

    return Shop


def second_release(notes: Notes) -> type[Base]:
    class Shop(Base):
        @scheduled(Every(hours=1))
        async def sweep(self) -> None:
            notes.add("swept anew")

        @scheduled(Every(hours=3))
        async def restock(self) -> None:
            notes.add("restocked")

    return Shop


def page_of(server: LocalServer) -> AgentClient:
    soon = Backoff(first=0.002, most=0.05)
    return AgentClient("http://localhost", "shop", "berlin", connect=server.network().connect, backoff=soon)


async def test_a_killed_process_and_a_new_release_leave_every_schedule_once_and_at_its_time(tmp_path: Path) -> None:
    notes, clock, path = Notes(), ManualClock(), tmp_path / "log.db"
    server = LocalServer(first_release(notes), store=path, clock=clock)
    await server.start()
    async with page_of(server) as page:
        assert await page.call("plans") == ["sweep", "report"]
        await server.restart()
        assert await page.call("plans") == ["sweep", "report"]
    clock.advance(1_800)
    await server.kill()
    async with LocalServer(second_release(notes), store=path, clock=clock) as again, page_of(again) as page:
        assert await page.call("plans") == ["sweep", "restock"]
        clock.advance(1_800)  # an hour since the first release added it
        await notes.until("swept anew")
        clock.advance(5 * 1_800)  # three hours since the second release added it
        await notes.until("swept anew", "swept anew", "restocked")
        assert sorted(await page.call("plans")) == ["restock", "sweep"]
