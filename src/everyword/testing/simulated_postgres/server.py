"""Runs statements: takes the locks that they need, lets them take their time, and refuses what the database refuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg

from .tables import EventRecord, FenceRecord, Row, Tables

__all__ = ["STATEMENTS", "Call", "SimulatedPostgres", "refused", "statement"]

Statement = Callable[..., Awaitable[list[Row]]]

STATEMENTS: dict[str, Statement] = {}
"""What the statements of `log/postgres/sql/queries.sql` do, by name."""


def statement(name: str) -> Callable[[Statement], Statement]:
    """Register what the statement of this name does."""

    def register(function: Statement) -> Statement:
        STATEMENTS[name] = function
        return function

    return register


def refused(text: str, code: str) -> asyncpg.PostgresError:
    """Return an error of the database with this code."""
    error = asyncpg.RaiseError(text)
    error.sqlstate = code
    return error


class SimulatedPostgres:
    """One database with one schema.

    Attributes:
        tables: What is committed.
        clock: Returns the database's time in milliseconds.
        work: Awaited in each transaction that writes, between its checks and its commit, with the backend.
        on_commit: Called with the incarnation and the events of each agent, when they are committed.
        statement_timeout: Seconds after which a statement that waits for a lock is cancelled.
    """

    def __init__(self, clock: Callable[[], float] | None = None, *, statement_timeout: float = 60.0) -> None:
        self.tables = Tables()
        self.clock = clock if clock is not None else lambda: time.time() * 1000
        self.started = int(self.clock()) - 3_600_000
        self.statement_timeout = statement_timeout
        self.work: Callable[[int], Awaitable[None]] | None = None
        self.on_commit: Callable[[int, str, Sequence[EventRecord]], None] | None = None
        self.on_gone: Callable[[int], None] | None = None
        self.end_backend: Callable[[int], None] = lambda backend: None
        self._backends = 0

    def new_backend(self) -> int:
        self._backends += 1
        return self._backends

    async def run(self, backend: int, name: str, values: Sequence[Any]) -> list[Row]:
        """Run one statement as a transaction of its own."""
        found = STATEMENTS.get(name)
        if found is None:
            raise NotImplementedError(f"the simulated PostgreSQL does not know the statement {name!r}; add it")
        return await found(Call(self, backend), *values)


class Call:
    """One statement that runs: its database, and the backend that runs it."""

    def __init__(self, database: SimulatedPostgres, backend: int) -> None:
        self.database, self.tables, self.backend = database, database.tables, backend

    @property
    def now(self) -> float:
        return self.database.clock()

    @contextmanager
    def fence(self, node: int, generation: int) -> Iterator[None]:
        """Lock the node's fence, shared, until the transaction ends; or refuse."""
        fence = self.tables.fences.get(node)
        if fence is None or fence.is_gone or fence.generation != generation:
            raise refused(f"node {node} was declared gone, or has a newer connection", "EW002")
        fence.writers.add(self.backend)
        try:
            yield
        finally:
            fence.writers.discard(self.backend)
            fence.freed.set()

    async def work(self) -> None:
        """Take the time that a transaction takes before it commits."""
        if self.database.work is not None:
            await self.database.work(self.backend)

    async def alone(self, fence: FenceRecord) -> None:
        """Wait until no other transaction holds the fence."""
        try:
            async with asyncio.timeout(self.database.statement_timeout):
                while fence.writers - {self.backend}:
                    fence.freed.clear()
                    await fence.freed.wait()
        except TimeoutError:
            raise asyncpg.QueryCanceledError("canceling statement due to statement timeout") from None
