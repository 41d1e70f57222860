"""The agents' own databases on PostgreSQL: SQLite in the memory of the owner, its pages in rows.

A statement that wrote has a result once the pages that it changed are committed. If that fails, the database in memory
is thrown away, and the next statement loads it from the pages again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ...errors import EverywordError, Fenced, LogUnavailable, OutcomeUnknown, SqlError
from ...ids import AgentId, Incarnation
from ..sqlite.agent_databases import DatabaseBackend, connect_agent_database
from .agent_leases import AgentLeases
from .connection import Connector
from .io_thread import IoThread
from .node_lease import NodeLease
from .queries import Queries
from .sql_connections import SqlConnection, SqlConnections

__all__ = ["LANES", "DatabaseRight", "PageBackend", "changed_pages"]

LANES: Final = (1, 2)
"""The rows of the node's fence that the connections for pages lock."""

PAGE_SIZE: Final = 1024
"""Bytes of a page of a new database. A small statement changes two: 2.4 kB of WAL; with pages of 4096 bytes 9.8 kB."""

MEGABYTE: Final = 1024 * 1024

BLOCK: Final = 64 * 1024
"""Images are compared in blocks of so many bytes, then page by page where they differ; page by page alone is slower."""

T = TypeVar("T")


class DatabaseRight(NamedTuple):
    """The lease under which a statement runs: that of the moment when it was asked."""

    incarnation: Incarnation
    key: int
    epoch: int
    root: int
    term: int


class _Opened:
    """What is stored of an open database."""

    __slots__ = ("image", "is_stored", "opening", "right")

    def __init__(self, right: DatabaseRight, opening: int, image: bytes, *, is_stored: bool) -> None:
        self.right, self.opening, self.image, self.is_stored = right, opening, image, is_stored


class PageBackend(DatabaseBackend):
    """Where the databases of one `PostgresLog` are stored.

    Args:
        connector: Connects to the database.
        node: The lease of this node.
        leases: The agents that this node may write.
        queries: Returns the queries of the store, for `has`.
        thread: Runs the calls to the database.
        timeout: Seconds that one call may take.
    """

    def __init__(
        self,
        connector: Connector,
        node: NodeLease,
        leases: AgentLeases,
        queries: Callable[[], Queries],
        *,
        thread: IoThread,
        timeout: float,
    ) -> None:
        self._connector, self._node, self._leases, self._queries = connector, node, leases, queries
        self._thread, self._timeout = thread, timeout
        self._limit, self._memory = connector.address.sql_limit, connector.address.sql_memory
        self.connections = SqlConnections(connector, LANES, timeout)
        self._opened: dict[AgentId, _Opened] = {}

    @property
    def if_full(self) -> str | None:
        return (
            f"the agent's database would have more than {self._limit} MB, which is the limit on PostgreSQL. Delete "
            "rows, raise the limit with `sql_limit=` in the address of the store, or keep large data in tables of "
            "your own"
        )

    @property
    def is_over_memory(self) -> bool:
        # SQLite has a copy of each image.
        return 2 * sum(len(each.image) for each in list(self._opened.values())) > self._memory * MEGABYTE

    def admit(self, agent: AgentId) -> DatabaseRight:
        if not self._node.is_valid:
            raise LogUnavailable(f"unable to use the database of {agent!r}; this node has no lease at the moment")
        lease = self._leases.find(agent)
        if lease is None:
            raise Fenced(
                f"unable to use the database of {agent!r}; the agent is not loaded on this node any more. Code that "
                "runs on after its agent was unloaded has to call the agent: `app.get(…)`"
            )
        return DatabaseRight(self._node.incarnation, lease.key, lease.epoch, lease.root.key, lease.root.term)

    def open(self, agent: AgentId, right: DatabaseRight) -> sqlite3.Connection:
        doing = f"open the database of {agent!r}"

        async def load(connection: SqlConnection) -> tuple[int | None, Sequence[Any]]:
            opening = await self._write(connection, "open_database", right)
            return opening, await connection.fetch(self._connector.sql["pages"], right.key) if opening else ()

        try:
            opening, rows = self._call(doing, load)
        except OutcomeUnknown as exc:  # an opening that has no reader changes nothing
            raise LogUnavailable(str(exc)) from exc
        if opening is None:
            raise Fenced(f"unable to {doing}; the agent has another owner now")
        image = b"".join([row[0] for row in rows])
        connection = connect_agent_database(":memory:")
        connection.deserialize(image or EMPTY)
        size = _page_size(image or EMPTY)
        connection.execute(f"PRAGMA max_page_count = {self._limit * MEGABYTE // size}")
        self._opened[agent] = _Opened(right, opening, image or EMPTY, is_stored=bool(image))
        return connection

    def save(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        opened, image = self._opened[agent], connection.serialize()
        if image == opened.image:
            return
        size = _page_size(image)
        numbers = changed_pages(opened.image if opened.is_stored else b"", image, size)
        bodies = [image[number * size : (number + 1) * size] for number in numbers]
        try:
            is_written = self._put(agent, opened.right, opened.opening, len(image) // size, numbers, bodies)
        except OutcomeUnknown as exc:
            raise OutcomeUnknown(f"{exc}. It is not known whether the statement was written") from exc
        except EverywordError as exc:
            raise type(exc)(f"{exc}. Nothing of the statement was written") from exc
        if not is_written:
            raise Fenced(
                f"unable to write the database of {agent!r}; the agent has another owner now. Nothing of the statement "
                "was written"
            )
        opened.image, opened.is_stored = image, True

    def leave(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        self._opened.pop(agent, None)

    async def has(self, agent: AgentId) -> bool:
        return await self._queries().has_database(agent)

    def drop(self, agent: AgentId) -> None:
        """Delete the pages of an agent that this node owns; those of any other go when the agent is destroyed."""
        try:
            right = self.admit(agent)
        except Fenced:
            return
        self._replace(agent, right, [])

    def restore(self, agent: AgentId, right: DatabaseRight, image: bytes) -> None:
        if len(image) > self._limit * MEGABYTE:
            raise SqlError(f"unable to write the database of {agent!r}; {self.if_full}")
        size = _page_size(image)
        if not self._replace(agent, right, [image[at : at + size] for at in range(0, len(image), size)]):
            raise Fenced(f"unable to write the database of {agent!r}; the agent has another owner now")

    def _replace(self, agent: AgentId, right: DatabaseRight, pages: Sequence[bytes]) -> bool:
        """Write all pages of a database; return False if nothing was written, because the agent has another owner."""
        doing = f"open the database of {agent!r}"
        opening = self._call(doing, lambda connection: self._write(connection, "open_database", right))
        return opening is not None and self._put(agent, right, opening, len(pages), range(len(pages)), pages)

    def _put(
        self,
        agent: AgentId,
        right: DatabaseRight,
        opening: int,
        count: int,
        numbers: Sequence[int],
        bodies: Sequence[bytes],
    ) -> bool:
        def put(connection: SqlConnection) -> Coroutine[Any, Any, bool]:
            return self._write(connection, "put_pages", right, opening, count, numbers, bodies)

        return self._call(f"write the database of {agent!r}", put)

    async def _write(self, connection: SqlConnection, name: str, right: DatabaseRight, *values: Any) -> Any:
        return await connection.write(self._connector.sql[name], right.incarnation, *right[1:], *values)

    def _call(self, doing: str, work: Callable[[SqlConnection], Coroutine[Any, Any, T]]) -> T:
        """Run a call in the thread for it, and wait."""
        if not self._node.is_valid:  # many statements that wait end at once, instead of one by one in their time
            raise LogUnavailable(f"unable to {doing}; this node has no lease at the moment")
        return self._thread.run(doing, lambda: self.connections.call(doing, work), self._timeout)


def changed_pages(before: bytes, after: bytes, size: int) -> list[int]:
    """Return the numbers of the pages that are new or differ, from 0."""
    changed: list[int] = []
    for start in range(0, len(after), BLOCK):
        if before[start : start + BLOCK] != after[start : start + BLOCK]:
            places = range(start, min(start + BLOCK, len(after)), size)
            changed += [at // size for at in places if before[at : at + size] != after[at : at + size]]
    return changed


def _page_size(image: bytes) -> int:
    """Return the size of a page, from the header of the database."""
    size = int.from_bytes(image[16:18], "big")
    return 65536 if size == 1 else size


def _empty() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    connection.execute("PRAGMA user_version = 0")  # writes the header
    image = connection.serialize()
    connection.close()
    return image


EMPTY: Final = _empty()
"""The image of a new database: one page. Nothing of it is stored before the first statement that writes."""
