"""Opens the database file of a command, for reading or writing, and finds agents and turns by name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote

from ..errors import LogLocked, UsageError
from ..ids import AgentId
from ..log.sqlite.store import SqliteLog
from ..rows import TurnRow
from .readonly_log import ReadOnlyLog, holder_of

__all__ = ["find_agent", "find_turn", "path_of", "reading", "writing"]

PATIENCE = 1.0
"""Seconds to wait for a process that uses the file, before the command fails."""


@asynccontextmanager
async def reading(db: str) -> AsyncIterator[ReadOnlyLog]:
    """Open the file for reading, also while a server uses it."""
    store = ReadOnlyLog(path_of(db))
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


@asynccontextmanager
async def writing(db: str, what: str, *, may_make: bool = False) -> AsyncIterator[SqliteLog]:
    """Open the file for writing, exclusively; `what` names the purpose in errors.

    Raises:
        LogLocked: a server uses the file.
        UsageError: there is no such file, and `may_make` is False.
    """
    path = path_of(db)
    _check(path, what, may_make=may_make)
    store = SqliteLog(path, lock_timeout=PATIENCE)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


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
    ReadOnlyLog(path).check()


def path_of(db: str) -> str:
    """Return the path of a store's address, which is a path or sqlite:///path."""
    if db.startswith("sqlite:///"):
        return unquote(db.removeprefix("sqlite:///"))
    if "://" in db or db == "memory:":
        raise UsageError(f"unable to use {db!r}; commands work on SQLite files. Name one: --db PATH")
    return os.fspath(db)


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
    raise UsageError(f"unable to find {given!r}; {db} has no such agent. {hint}")


async def find_turn(store: ReadOnlyLog, agent: AgentId, given: str | None) -> TurnRow:
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
