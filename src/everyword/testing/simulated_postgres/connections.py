"""The driver: connections to a simulated PostgreSQL, with a network between that can be slow, silent or cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any
from unittest.mock import patch

import asyncpg

from ...log.postgres import store as store_module
from ...log.postgres.address import DatabaseAddress
from ...log.postgres.connection import Connector
from ...log.postgres.store import PostgresLog
from . import lists, nodes, reads, retention, writes  # noqa: F401 - they register their statements
from .server import SimulatedPostgres
from .tables import Row

__all__ = ["URL", "Pool", "SimulatedConnection", "SimulatedConnector", "Wire", "node_store"]

URL = "postgresql://simulated/everyword"


def node_store(database: SimulatedPostgres, wire: Wire | None = None, **options: Any) -> PostgresLog:
    """Make a `PostgresLog` that is one node of the database; options are those of `PostgresLog`."""

    def connector(address: DatabaseAddress, **settings: Any) -> SimulatedConnector:
        return SimulatedConnector(address, database, wire if wire is not None else Wire(), **settings)

    with (
        patch.object(store_module, "Connector", connector),
        patch.object(store_module, "PostgresAgentDatabases", _NoDatabases),
    ):
        store = PostgresLog(URL, **options)
    store.databases = None
    return store


class _NoDatabases:
    """Takes the place of the agents' own databases, which need threads."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def reopen(self) -> None: ...

    def abort(self) -> None: ...

    async def aclose(self) -> None: ...


class Wire:
    """The network between one node and the database. This one is perfect; the simulation has others."""

    def __init__(self) -> None:
        self.connections: list[SimulatedConnection] = []
        self.context = Context()
        """The database's own: what it does goes on while the node is paused."""

    async def connect(self) -> None:
        """Take the time that connecting takes; raises `OSError` if it is not possible."""

    async def up(self, name: str, lose: Callable[[], None]) -> None:
        """Let a statement travel to the database; raises `ConnectionError` if it is lost.

        `lose` ends its connection, for a statement that arrives after its node has given it up.
        """

    async def down(self, name: str) -> None:
        """Let the result of a statement travel back; raises `ConnectionAbortedError` if it is lost."""


class SimulatedConnector(Connector):
    """Connects to the simulated database. Statements are sent by their names."""

    def __init__(self, address: DatabaseAddress, database: SimulatedPostgres, wire: Wire, **settings: Any) -> None:
        super().__init__(address, **settings)
        self._database, self._wire = database, wire
        self.sql = {name: name for name in self.sql}

    async def connect(self, **settings: str) -> Any:
        try:
            await self._wire.connect()
        except OSError as exc:
            raise self._explained(exc) from exc
        connection = SimulatedConnection(self._database, self._wire)
        self._wire.connections.append(connection)
        return connection

    async def pool(self, size: int) -> Any:
        return Pool(self)


class SimulatedConnection:
    """One connection, as the driver offers it. Its statements run one after the other, also those given up."""

    def __init__(self, database: SimulatedPostgres, wire: Wire) -> None:
        self._database, self._wire = database, wire
        self.backend = database.new_backend()
        self._is_closed = False
        self._waiting: asyncio.Future[list[Row]] | None = None
        self._running: asyncio.Task[None] | None = None

    async def fetch(self, name: str, *values: Any) -> list[Row]:
        if self._is_closed:
            raise asyncpg.InterfaceError("connection is closed")
        if name.startswith("set "):
            return []
        waiting: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        run = self._run(self._running, name, values, waiting)
        self._running = asyncio.get_running_loop().create_task(
            run, name=f"statement {name}", context=self._wire.context
        )
        return await waiting

    async def fetchrow(self, name: str, *values: Any) -> Row | None:
        found = await self.fetch(name, *values)
        return found[0] if found else None

    async def fetchval(self, name: str, *values: Any) -> Any:
        found = await self.fetch(name, *values)
        return found[0][0] if found else None

    async def execute(self, name: str, *values: Any) -> None:
        await self.fetch(name, *values)

    async def _run(
        self, before: asyncio.Task[None] | None, name: str, values: Any, waiting: asyncio.Future[list[Row]]
    ) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        try:
            await self._wire.up(name, self.terminate)
            result = await self._database.run(self.backend, name, values)
            await self._wire.down(name)
        except ConnectionAbortedError:
            self.terminate()
            return
        except ConnectionError:
            return  # the statement never arrives; the node learns of that when the connection is lost
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - the node gets it
            if not waiting.done() and not self._is_closed:
                waiting.set_exception(exc)
            return
        if not waiting.done() and not self._is_closed:
            waiting.set_result(result)

    def is_closed(self) -> bool:
        return self._is_closed

    def terminate(self) -> None:
        """Close at once. What was sent may arrive all the same."""
        if self._is_closed:
            return
        self._is_closed = True
        if self in self._wire.connections:
            self._wire.connections.remove(self)
        if self._waiting is not None and not self._waiting.done():
            error = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
            self._waiting.set_exception(error)

    def end_backend(self) -> None:
        """End it from the side of the database: what has not committed is rolled back."""
        if self._running is not None:
            self._running.cancel()
        self.terminate()

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the driver's own signature
        self.terminate()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Each statement commits by itself: no transaction of several statements has to be undone in a simulation."""
        yield


class Pool:
    """Opens a connection for each use."""

    def __init__(self, connector: SimulatedConnector) -> None:
        self._connector = connector
        self._is_closed = False

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        if self._is_closed:
            raise asyncpg.InterfaceError("pool is closed")
        connection = await self._connector.connect()
        try:
            yield connection
        finally:
            connection.terminate()

    async def fetch(self, name: str, *values: Any) -> list[Row]:
        async with self.acquire() as connection:
            found: list[Row] = await connection.fetch(name, *values)
            return found

    async def close(self) -> None:
        self._is_closed = True
