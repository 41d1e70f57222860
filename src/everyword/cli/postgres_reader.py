"""Reads the logs in a PostgreSQL database while nodes use it: takes no lease, and every transaction is read-only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Final, NamedTuple

from ..errors import LogError, UsageError
from ..ids import AgentId, Epoch, Incarnation, Millis, Seq
from ..log.base import REPLAYED, Activation
from ..log.postgres.address import DatabaseAddress
from ..log.postgres.connection import DRIVER_ERRORS, NOT_ALLOWED, Connector, refusal
from ..log.postgres.log_reads import LogReads
from ..log.postgres.queries import Queries
from ..log.postgres.row_codec import agent_row, kept_rows, message_rows, stored_events, turn_rows
from ..log.postgres.schema import VERSION, read_version
from ..log.sql_files import parse_statements
from ..rows import AgentRow
from .log_reader import AgentRecord, AgentSummary, Prunable

__all__ = ["OwningNode", "PostgresReader", "is_connection_lost"]

SQL = parse_statements((files(__package__) / "postgres_queries.sql").read_text(encoding="utf-8"))

LOST: Final = ("08", "57P", "53300")
"""Beginnings of the database's codes for lost connections, for a server that stops or starts, and for one without a
connection left."""

LONGEST: Final = 600.0
"""Seconds that a statement may take: `everyword doctor` counts the events of the whole database in one."""


class OwningNode(NamedTuple):
    """A node that lives, and what it owns."""

    id: Incarnation
    name: str
    url: str
    version: int
    state: str
    since: Millis
    remaining: int
    """Milliseconds until its lease ends; negative if it has ended, and no other node has noticed."""
    agents: int
    open_turns: int


class PostgresReader(LogReads):
    """The `LogReader` of a database."""

    noun = "database"
    poll_seconds = 0.25

    def __init__(self, url: str) -> None:
        address = DatabaseAddress.parse(url)
        self._shown = address.shown_with_schema
        self._connector = Connector(address, lease=3 * LONGEST, flushes=True)
        self._connection = _ReadOnlyConnection(self._connector)
        self._reads = Queries(self._connector, self._connection)
        self._sql = {name: self._connector.in_schema(text) for name, text in SQL.items()}

    async def open(self, *, may_be_older: bool = False) -> None:
        """Connect and check the version of the schema. Only writers bring an older one up to date.

        Raises:
            UsageError: there is no schema.
            LogTooNew: it was made by a newer everyword.
            LogError: it has an older version, or the database cannot be used.
        """
        async with self._snapshot(f"read {self._shown}") as connection:
            version = await read_version(connection, self._connector)
        if not version:
            raise UsageError(
                f"unable to read {self._shown}; it has no everyword tables. Check the database and `schema=` in the "
                "address, or start a server on it once"
            )
        if version < VERSION and not may_be_older:
            raise LogError(
                f"unable to read {self._shown}; its schema has version {version}, and this everyword reads {VERSION}. "
                "Start a server of this version once, or run `everyword rebuild`"
            )

    @property
    def _queries(self) -> Queries:
        return self._reads

    async def aclose(self) -> None:
        await self._reads.aclose()

    async def is_served(self) -> bool:
        return any(node.url and node.remaining > 0 for node in await self.nodes())

    async def nodes(self) -> list[OwningNode]:
        """Return the nodes that live, commands that write among them: those have no `url`."""
        return [OwningNode._make(row) for row in await self._fetch("nodes", "list the nodes")]

    async def agent_row(self, agent: AgentId) -> AgentRow | None:
        return await self._queries.agent_row(agent)

    # -- further queries of commands -----------------------------------------------------------------------------------

    async def load(self, agent: AgentId, *, recent: int = 256) -> Activation:
        async with self._snapshot(f"read {agent!r}") as connection:
            found = await connection.fetchrow(self._sql["load_agent"], agent)
            if found is None:
                raise UsageError(f"unable to read {agent!r}; there is no such agent")
            row = await connection.fetchrow(self._connector.sql["agent_row"], agent)
            messages = await connection.fetch(self._connector.sql["conversation"], agent)
            return Activation(
                epoch=Epoch(found["epoch"]),
                head=Seq(found["head"]),
                agent=agent_row(*row),
                turns=turn_rows(await connection.fetch(self._sql["load_turns"], agent, recent)),
                messages=message_rows(tuple(each)[4:] for each in messages if each["node"] is not None),
                chunks=stored_events(await connection.fetch(self._sql["load_events"], agent, list(REPLAYED))),
                kept=kept_rows(await connection.fetch(self._connector.sql["kept"], agent)),
            )

    async def head(self, agent: AgentId) -> Seq:
        found = await self._fetch("head", f"read {agent!r}", agent)
        return Seq(found[0][0]) if found else Seq(0)

    async def database(self, agent: AgentId) -> bytes | None:
        found = await self._fetch("pages", f"read the database of {agent!r}", agent)
        return b"".join([row["body"] for row in found]) if found else None

    async def summaries(self) -> list[AgentSummary]:
        return [AgentSummary._make(row) for row in await self._fetch("overview", "list the agents")]

    async def agent_record(self, agent: AgentId) -> AgentRecord:
        found = await self._fetch("agent_record", f"read {agent!r}", agent)
        return AgentRecord._make(found[0]) if found else AgentRecord(0, None, 0)

    async def stored_counts(self) -> dict[str | None, tuple[int, int]]:
        return {agent: (count, last) for agent, count, last in await self._fetch("stored_counts", "count the events")}

    async def prunable(self, before: Millis) -> Prunable:
        return Prunable._make((await self._fetch("prunable", "count the events", before))[0])

    async def sizes(self) -> tuple[int, int]:
        """Return the size of the tables; PostgreSQL does not tell how much of it is unused."""
        return (await self._fetch("size", "measure the tables", self._connector.address.schema))[0][0], 0

    async def damage(self) -> list[str]:
        """Return rows that belong to no agent. Damaged pages are found by PostgreSQL itself, when they are read."""
        found = await self._fetch("strays", "look for stray rows")
        return [f"{count} rows of the table {name!r} belong to no agent" for name, count in found]

    async def _fetch(self, name: str, doing: str, *values: Any) -> Sequence[Any]:
        async with self._snapshot(doing) as connection:
            found: Sequence[Any] = await connection.fetch(self._sql[name], *values)
        return found

    @asynccontextmanager
    async def _snapshot(self, doing: str) -> AsyncIterator[Any]:
        try:
            async with self._connection.snapshot() as connection:
                yield connection
        except DRIVER_ERRORS as exc:
            if getattr(exc, "sqlstate", None) == NOT_ALLOWED:
                schema = self._connector.address.schema
                raise LogError(
                    f"unable to {doing}; {exc}. Use the role that owns the schema, or let this one read: "
                    f'grant usage on schema "{schema}" to …; grant select on all tables in schema "{schema}" to …'
                ) from exc
            raise refusal(doing, exc) from exc


def is_connection_lost(exc: LogError) -> bool:
    """Return True if a read failed because the database cannot be reached at the moment: try again later."""
    cause = exc.__cause__
    code = getattr(cause, "sqlstate", None)
    return isinstance(cause, DRIVER_ERRORS) and (code is None or code.startswith(LOST))


class _ReadOnlyConnection:
    """One connection, with the methods of the driver's pool that `Queries` uses. Connects again if it was lost."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Any = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Any]:
        """Begin a transaction that sees the database as it is now, and ends with the block."""
        async with self._lock:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connector.connect(default_transaction_read_only="on")
            # Said for each transaction, too: behind a pooler no setting of the session is ours.
            async with self._connection.transaction(isolation="repeatable_read", readonly=True):
                yield self._connection

    async def fetch(self, query: str, *values: Any) -> Sequence[Any]:
        async with self.snapshot() as connection:
            found: Sequence[Any] = await connection.fetch(query, *values)
            return found

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=1)
