"""Play operations of two nodes on one agent in a chosen interleaving, with real row locks as barriers.

Each operation is one call in the database. A barrier is a transaction of a third connection that holds a lock which the
operation needs at a certain point: it stops there until the barrier is lifted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from everyword.errors import EverywordError
from everyword.ids import AgentId
from everyword.log.base import Activation
from everyword.log.postgres.store import PostgresLog
from tests.log.building import A, Owner, fact
from tests.log.postgres.takeover import LEASE, expire, node_of
from tests.postgres.server import Postgres
from tests.timeouts import PATIENCE

__all__ = ["OPERATIONS", "Stage", "interleavings", "staged"]

CHILD = AgentId(f"{A}/sub/kid/x")


@dataclass(frozen=True)
class Operation:
    """What one node does, and the lock that stops it half way."""

    run: Callable[[Stage], Awaitable[Any]]
    barrier: Callable[[Stage], tuple[str, tuple[Any, ...]]]
    """The statement that takes the lock, and its arguments."""
    function: str
    """The function of the database that it calls."""
    lane: str = ""
    """Operations with the same lane wait for each other in the node: they share its writing connection."""


@dataclass
class Stage:
    """Two nodes, one agent that the old one owns, and what the operations have led to."""

    server: Postgres
    schema: str
    old: PostgresLog
    new: PostgresLog
    owner: Owner
    key: int
    watcher: asyncpg.Connection
    results: dict[str, Any]
    tasks: dict[str, asyncio.Task[Any]]
    barriers: dict[str, asyncpg.Connection]

    async def play(self, steps: Sequence[str]) -> None:
        """Play steps: the first mention of an operation starts it behind its barrier, the second lifts the barrier."""
        for name in dict.fromkeys(steps):
            barrier = await self.server.connect(self.schema)
            self.barriers[name] = barrier
            await barrier.execute("BEGIN")
            statement, values = OPERATIONS[name].barrier(self)
            await barrier.execute(statement, *values)
        for name in steps:
            if name not in self.tasks:
                self.tasks[name] = asyncio.create_task(self._run(name))
            else:
                await self.barriers.pop(name).close()
            await self._settle()
        await asyncio.gather(*self.tasks.values())

    async def _run(self, name: str) -> None:
        try:
            self.results[name] = await OPERATIONS[name].run(self)
        except EverywordError as error:
            self.results[name] = error

    async def _settle(self) -> None:
        """Wait until each operation has ended, or waits for a lock, or for one of its node that does."""
        async with asyncio.timeout(PATIENCE):
            while True:
                waiting = [name for name, task in self.tasks.items() if not task.done()]
                blocked = await self._blocked()
                lanes = {OPERATIONS[name].lane for name in waiting if name in blocked} - {""}
                if all(name in blocked or OPERATIONS[name].lane in lanes for name in waiting):
                    return

    async def _blocked(self) -> set[str]:
        found = await self.watcher.fetch(
            "SELECT query FROM pg_stat_activity WHERE state = 'active' AND pg_blocking_pids(pid) <> '{}'"
        )
        calls = [row["query"] for row in found if f'"{self.schema}".' in row["query"]]
        return {name for name, each in OPERATIONS.items() if any(f".{each.function}(" in call for call in calls)}

    async def rows(self) -> list[tuple[int, int, str]]:
        """Return seq, epoch and kind of each event of the agent."""
        found = await self.watcher.fetch("SELECT seq, epoch, kind FROM event WHERE agent = $1 ORDER BY seq", self.key)
        return [tuple(row) for row in found]


async def _reap(stage: Stage) -> bool:
    connection = await stage.server.connect()
    try:
        statement = f'SELECT "{stage.schema}".declare_gone_1($1)'
        await connection.execute(f'SET search_path TO "{stage.schema}"')
        return bool(await connection.fetchval(statement, node_of(stage.old)))
    finally:
        await connection.close()


async def _append(stage: Stage) -> None:
    await stage.owner.append(fact("late"))


async def _release(stage: Stage) -> None:
    assert stage.old.nodes is not None
    await stage.old.nodes.release([A])


async def _activate(stage: Stage) -> Activation:
    return await stage.new.activate(A)


async def _activate_child(stage: Stage) -> Activation:
    return await stage.new.activate(CHILD)


OPERATIONS = {
    # The old owner writes: stopped before it has locked its node's fence, or between that and its commit.
    "append before fence": Operation(
        _append,
        lambda stage: ("SELECT 1 FROM fence WHERE node = $1 FOR UPDATE", (node_of(stage.old),)),
        "append_1",
        "old",
    ),
    "append before commit": Operation(
        _append,
        lambda stage: (
            "INSERT INTO event (agent, seq, part, epoch, at, kind, more, body) VALUES ($1, $2, 0, 0, 0, 'x', 0, '')",
            (stage.key, stage.owner.head + 1),
        ),
        "append_1",
        "old",
    ),
    # A third party declares the old node gone.
    "reap": Operation(
        _reap,
        lambda stage: ("SELECT 1 FROM node WHERE id = $1 FOR UPDATE", (node_of(stage.old),)),
        "declare_gone_1",
    ),
    # The new node takes the agent: stopped before it begins, or after it has taken the root.
    "activate": Operation(
        _activate,
        lambda stage: ("SELECT 1 FROM fence WHERE node = $1 FOR UPDATE", (node_of(stage.new),)),
        "activate_1",
    ),
    "activate before commit": Operation(
        _activate_child,
        lambda stage: ("INSERT INTO agent (id, root, epoch) VALUES ($1, 0, 0)", (CHILD,)),
        "activate_1",
    ),
    # The old node lets go of the agent.
    "release": Operation(
        _release,
        lambda stage: ("SELECT 1 FROM agent WHERE id = $1 FOR UPDATE", (A,)),
        "release_1",
        "old",
    ),
}


def interleavings(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every order of starts and lifted barriers; an operation starts before its barrier is lifted."""
    counts = dict.fromkeys(names, 2)

    def go_on(steps: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not any(counts.values()):
            yield steps
        for name in names:
            if counts[name]:
                counts[name] -= 1
                yield from go_on((*steps, name))
                counts[name] += 1

    yield from go_on(())


@asynccontextmanager
async def staged(server: Postgres, url: str, new: PostgresLog, watcher: asyncpg.Connection) -> AsyncIterator[Stage]:
    """Open the old node; it owns the agent and has written one event, and its lease is over."""
    schema = url.rpartition("schema=")[2]
    old = PostgresLog(url, lease=LEASE)
    await old.open()
    stage: Stage | None = None
    try:
        owner = await Owner.take(old, A)
        await owner.append(fact("first"))
        key = await watcher.fetchval("SELECT key FROM agent WHERE id = $1", A)
        await expire(server, schema, old)
        stage = Stage(server, schema, old, new, owner, key, watcher, {}, {}, {})
        yield stage
    finally:
        if stage is not None:
            for barrier in stage.barriers.values():
                barrier.terminate()
            await asyncio.gather(*stage.tasks.values(), return_exceptions=True)
        await old.aclose()
