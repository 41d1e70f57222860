"""What the views in the agents' own databases read: the store, by a connection for threads that may block."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...ids import AgentId, TurnId
from ...rows import AgentRow, MessageRow, TurnRow
from ..base import Stored
from .connection import Connector
from .io_thread import IoThread
from .queries import Queries
from .sql_connections import SqlConnections

__all__ = ["PostgresViewSource"]

T = TypeVar("T")


class PostgresViewSource:
    """A `ViewSource` over a store on PostgreSQL. Its connection can only read, and sees what was committed."""

    def __init__(self, connector: Connector, *, thread: IoThread, timeout: float) -> None:
        self._thread, self._timeout = thread, timeout
        self.connections = SqlConnections(connector, [None], timeout)
        self._queries = Queries(connector, self.connections)

    def version(self, agent: AgentId) -> object:
        return self._read(lambda: self._queries.view_version(agent))

    def agent_row(self, agent: AgentId) -> AgentRow | None:
        return self._read(lambda: self._queries.agent_row(agent))

    def messages(self, agent: AgentId) -> list[MessageRow]:
        return self._read(lambda: self._queries.conversation(agent))[1]

    def turns(self, agent: AgentId, newest: int | None) -> list[TurnRow]:
        return self._read(lambda: self._queries.turns(agent, newest))

    def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        return self._read(lambda: self._queries.read_turn(agent, turn))

    def _read(self, query: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.run("read the log for a view", query, self._timeout)
