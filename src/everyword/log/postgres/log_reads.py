"""The reading methods of `LogStore` and `LogAdmin` that need nothing but the queries."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...ids import AgentId, RequestId, Seq, TurnId
from ...rows import AgentRow, KeptRow, MessageRow, TurnRow
from ..base import Stored
from .queries import Queries

__all__ = ["LogReads"]


class LogReads(ABC):
    """What the store of a node and the reader of the commands have in common."""

    @property
    @abstractmethod
    def _queries(self) -> Queries: ...

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        return await self._queries.read(agent, after, limit, size)

    async def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        return await self._queries.read_turn(agent, turn)

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        return await self._queries.conversation(agent)

    async def kept(self, agent: AgentId) -> list[KeptRow]:
        return await self._queries.kept(agent)

    async def agents(self, prefix: str = "") -> list[AgentId]:
        return await self._queries.agents(prefix)

    async def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None:
        return await self._queries.find_turn(agent, request)

    async def turns(self, agent: AgentId, *, newest: int | None = None) -> list[TurnRow]:
        return await self._queries.turns(agent, newest)
