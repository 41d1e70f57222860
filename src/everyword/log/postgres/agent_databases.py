"""`self.sql` on PostgreSQL: the queues and threads of the SQLite stores, with databases whose pages are rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..sqlite.agent_databases import SqliteAgentDatabases
from .agent_leases import AgentLeases
from .connection import Connector
from .database_pages import PageBackend
from .io_thread import IoThread
from .node_lease import NodeLease
from .queries import Queries
from .view_source import PostgresViewSource

__all__ = ["PostgresAgentDatabases"]


class PostgresAgentDatabases(SqliteAgentDatabases):
    """The databases of one `PostgresLog`. Their calls to PostgreSQL have a thread and connections of their own.

    `timeout` is how many seconds one such call may take.
    """

    def __init__(
        self,
        connector: Connector,
        node: NodeLease,
        leases: AgentLeases,
        queries: Callable[[], Queries],
        *,
        timeout: float,
    ) -> None:
        self._thread, self._timeout = IoThread("everyword-sql-io"), timeout
        source = PostgresViewSource(connector, thread=self._thread, timeout=timeout)
        backend = PageBackend(connector, node, leases, queries, thread=self._thread, timeout=timeout)
        self._connections = backend.connections, source.connections
        super().__init__(backend, lambda: source)

    def abort(self) -> None:
        """Fail what is under way: the node has lost its lease."""
        for connections in self._connections:
            self._thread.call_soon(connections.terminate)

    async def aclose(self) -> None:
        await super().aclose()
        await asyncio.get_running_loop().run_in_executor(None, self._stop)

    def _stop(self) -> None:
        if self._thread.is_running:
            for connections in self._connections:
                self._thread.run("close the connections", connections.aclose, self._timeout)
            self._thread.stop()
