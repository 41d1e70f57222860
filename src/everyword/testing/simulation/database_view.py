"""Reads the simulated database directly, without faults and without being a node: for the checks."""

from __future__ import annotations

from ...ids import AgentId, Millis, Seq
from ...log.base import Stored
from ...log.postgres.address import DatabaseAddress
from ...log.postgres.lists import PostgresLists
from ...log.postgres.queries import Queries
from ...rows import AgentRow, KeptRow, MessageRow, TurnRow
from ..simulated_postgres.connections import URL, Pool, SimulatedConnector, Wire
from ..simulated_postgres.server import SimulatedPostgres

__all__ = ["DatabaseView"]


class DatabaseView:
    """The reads of a `LogStore` that the checks of a simulation need."""

    def __init__(self, database: SimulatedPostgres) -> None:
        self._tables = database.tables
        connector = SimulatedConnector(DatabaseAddress.parse(URL), database, Wire(), lease=60, flushes=True)
        self._queries = Queries(connector, Pool(connector))
        self.lists = PostgresLists(lambda: self._queries)

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        return await self._queries.read(agent, after, limit, size)

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        return await self._queries.conversation(agent)

    async def kept(self, agent: AgentId) -> list[KeptRow]:
        return await self._queries.kept(agent)

    async def turns(self, agent: AgentId) -> list[TurnRow]:
        return await self._queries.turns(agent, None)

    async def due(self, until: Millis) -> list[tuple[AgentId, Millis]]:
        found = [(self._tables.agents[key].id, at) for key, at in self._tables.wakes.items() if at <= until]
        return [(AgentId(agent), Millis(at)) for agent, at in found]
