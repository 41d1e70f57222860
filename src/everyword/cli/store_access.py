"""Opens the store of a command, for reading or writing, and finds agents and turns by name.

The store's address decides what it is: a path or `sqlite:///path` is a file, `postgresql://…` a database that several
nodes may share. A command that writes to a database registers as a node and takes the leases of its agents.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ..errors import LogError, LogLocked, OwnedElsewhere, UsageError
from ..extras import missing
from ..ids import AgentId, root_id
from ..log.base import Activation, LogStore
from ..log.postgres.address import DatabaseAddress, is_postgres
from ..log.sqlite.store import SqliteLog
from ..rows import TurnRow
from ..runtime.rebuild import AdminStore
from .log_reader import LogReader
from .readonly_log import ReadOnlyLog, check_file, holder_of

if TYPE_CHECKING:
    from ..log.postgres.store import PostgresLog
    from .postgres_reader import PostgresReader

__all__ = [
    "find_agent",
    "find_turn",
    "leased",
    "leased_if_shared",
    "open_postgres",
    "owner_sentence",
    "path_of",
    "reading",
    "reading_postgres",
    "shown_address",
    "writing",
]

PATIENCE = 1.0
"""Seconds to wait for a process that uses the file, before the command fails."""

COMMAND_LEASE: Final = 30.0
"""Seconds of the lease of a command that writes to a database: it may compute for a while between two heartbeats."""


@asynccontextmanager
async def reading(db: str) -> AsyncIterator[LogReader]:
    """Open the store for reading, also while a server uses it."""
    if is_postgres(db):
        async with reading_postgres(db) as reader:
            yield reader
        return
    store = ReadOnlyLog(path_of(db))
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


@asynccontextmanager
async def reading_postgres(db: str) -> AsyncIterator[PostgresReader]:
    """Open a database for reading."""
    reader = _postgres_reader(db)
    try:
        await reader.open()
        yield reader
    finally:
        await reader.aclose()


def _postgres_reader(db: str) -> PostgresReader:
    try:
        from .postgres_reader import PostgresReader
    except ModuleNotFoundError as exc:
        raise missing("asyncpg", "postgres", "read a PostgreSQL store") from exc
    return PostgresReader(db)


@asynccontextmanager
async def writing(db: str, what: str, *, may_make: bool = False) -> AsyncIterator[AdminStore]:
    """Open the store for writing: a file exclusively, a database as a node; `what` names the purpose in errors.

    Raises:
        LogLocked: a server uses the file.
        UsageError: there is no such store, and `may_make` is False.
    """
    if is_postgres(db):
        if not may_make:
            await _check_made(db)
        store: AdminStore = open_postgres(db, what.partition(" ")[0])
    else:
        path = path_of(db)
        _check(path, what, may_make=may_make)
        store = SqliteLog(path, lock_timeout=PATIENCE)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


async def _check_made(db: str) -> None:
    """Refuse a database without our tables, instead of making them. An older version is brought up to date."""
    reader = _postgres_reader(db)
    try:
        await reader.open(may_be_older=True)
    finally:
        await reader.aclose()


def open_postgres(db: str, task: str) -> PostgresLog:
    """Return the store of a database as a node that is named after the command; not opened yet."""
    try:
        from ..log.postgres.store import PostgresLog
    except ModuleNotFoundError as exc:
        raise missing("asyncpg", "postgres", "open a PostgreSQL store") from exc
    name = f"everyword-{task}-{socket.gethostname()}-{os.getpid()}"
    return PostgresLog(db, lease=COMMAND_LEASE, name=name, patience=0.0)


@asynccontextmanager
async def leased(store: AdminStore, agent: AgentId, what: str) -> AsyncIterator[Activation]:
    """Hold the agent's lease inside the block; of a database it is given back afterwards.

    Raises:
        LogLocked: another node owns the agent.
    """
    try:
        activation = await store.activate(agent)
    except OwnedElsewhere as exc:
        raise LogLocked(f"unable to {what} {agent!r}; {owner_sentence(store, exc.node)}") from exc
    try:
        yield activation
    finally:
        if store.nodes is not None:
            with suppress(LogError):  # it goes with the node's lease, when the command ends
                await store.nodes.release([root_id(agent)])


def leased_if_shared(store: AdminStore, agent: AgentId, what: str) -> AbstractAsyncContextManager[Activation | None]:
    """Hold the agent's lease inside the block, if other nodes could take it; a file is ours as a whole."""
    return leased(store, agent, what) if store.nodes is not None else nullcontext()


def owner_sentence(store: LogStore, incarnation: int) -> str:
    """Return which node owns an agent, and what to do about it."""
    nodes = store.nodes.live if store.nodes is not None else ()
    owner = next((node for node in nodes if node.id == incarnation), None)
    if owner is None:
        return f"node {incarnation} owns it. Try again in a moment"
    if not owner.url:
        return f"node {owner.name!r} owns it, a command that has not ended. Try again when it has"
    return (
        f"node {owner.name!r} at {owner.url} owns it. Try again when the agent has been idle there for a minute, or "
        "stop that node"
    )


def _check(path: str, what: str, *, may_make: bool) -> None:
    """Refuse a file that is in use or not an everyword file, before a lock file is created beside it."""
    if not Path(path).is_file():
        if may_make and not Path(path).exists():
            return
        raise UsageError(f"unable to {what} {path!r}; there is no such file. Name it: --db PATH")
    if not Path(path).stat().st_size:
        return
    holder = holder_of(path)
    if holder is not None:
        stop = f"Stop it first (`kill {holder}`)" if holder else "Stop it first"
        named = f"process {holder}" if holder else "another process"
        raise LogLocked(f"unable to {what} {path!r}; {named} is using it. {stop}, then run this again")
    check_file(os.path.realpath(path))


def path_of(db: str) -> str:
    """Return the path of a file's address, which is a path or sqlite:///path."""
    if db.startswith("sqlite:///"):
        return unquote(db.removeprefix("sqlite:///"))
    if "://" in db or db == "memory:":
        kind = "memory:" if db == "memory:" else f"{db.partition('://')[0]}://…"
        raise UsageError(
            f"unable to use {kind!r}; commands work on SQLite files and PostgreSQL databases. "
            "Name one: --db PATH, --db postgresql://…"
        )
    return os.fspath(db)


def shown_address(db: str) -> str:
    """Return a store's address for people, without a password."""
    return DatabaseAddress.parse(db).shown_with_schema if is_postgres(db) else db


def find_agent(known: Sequence[AgentId], given: str, db: str) -> AgentId:
    """Return the agent with this id, or with this name if it is unique.

    Raises:
        UsageError: no agent has this name, or several have it.
    """
    if given in known:
        return AgentId(given)
    named = [agent for agent in known if agent.partition("/")[2] == given]
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(f"unable to choose {given!r}; it could be {' or '.join(map(repr, named))}. Give kind/name")
    close: list[str] = get_close_matches(given, known, 3, 0.5)
    close = close or [str(agent) for agent in known if given and given in agent][:3]
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "`everyword ls` lists them"
    raise UsageError(f"unable to find {given!r}; {shown_address(db)} has no such agent. {hint}")


async def find_turn(store: LogReader, agent: AgentId, given: str | None) -> TurnRow:
    """Return a turn by its number or request id; by default the newest that clients could watch.

    Raises:
        UsageError: there is no such turn.
    """
    rows = [row for row in await store.turns(agent) if not row.kind.is_bare]
    shown = [row for row in rows if row.kind.is_chat]
    if given is None and shown:
        return shown[-1]
    for row in rows:
        if given in (str(row.turn), row.request):
            return row
    known = f"it has turns {rows[0].turn} to {rows[-1].turn}" if rows else "it has none"
    raise UsageError(f"unable to find turn {given or ''!r} of {agent!r}; {known}. `everyword show` lists them")
