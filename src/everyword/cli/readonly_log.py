"""Reads a SQLite log while another process owns it: takes no lock and no lease, writes nothing, does not migrate."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable
from importlib.resources import files
from typing import TypeVar
from urllib.parse import quote

from ..errors import LogCorrupt, LogError, LogTooNew, LogUnavailable, UsageError
from ..ids import AgentId, Millis, RequestId, Seq, TurnId
from ..log.base import Activation, Stored
from ..log.sql_files import parse_statements
from ..log.sqlite.agent_databases import FileBackend
from ..log.sqlite.connection import BUSY_SECONDS
from ..log.sqlite.leases import Head, TakenLease
from ..log.sqlite.lock import fcntl
from ..log.sqlite.migrations import check_ours, load_migrations
from ..log.sqlite.queries import Reader
from ..log.sqlite.reader_pool import ReaderPool
from ..log.sqlite.statements import SQL as STORE_SQL
from ..rows import AgentRow, KeptRow, MessageRow, TurnRow
from .database_image import image_from
from .log_reader import AgentRecord, AgentSummary, Prunable

__all__ = ["ReadOnlyLog", "check_file", "holder_of"]

T = TypeVar("T")

SQL = parse_statements((files(__package__) / "queries.sql").read_text(encoding="utf-8"))

TRIES = 50
"""Attempts to read an agent that grew while it was read."""


class _FreshReader(Reader):
    """A reader that computes the heads of the logs itself: the writer's are in the memory of another process."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._own: dict[int, Head] = {}
        self._scanned, self._until = -1, 0
        super().__init__(connection, self._own)

    def refresh(self) -> _FreshReader:
        """Read the heads of events that were committed since the last call; later reads include these events."""
        (scanned, _) = self._connection.execute(STORE_SQL["store_row"]).fetchone()
        (last,) = self._connection.execute(STORE_SQL["last_arrival"]).fetchone()
        if scanned != self._scanned:  # the heads up to there are in the table, and agents may have been destroyed
            self._own.clear()
            self._scanned = self._until = scanned
        if last > self._until:
            for key, seq, arrival in self._connection.execute(STORE_SQL["newest_events"], (self._until, last)):
                self._own[key] = Head(seq, arrival)
            self._until = last
        return self

    def end_of(self, agent: AgentId) -> tuple[int, Head] | None:
        found = self._connection.execute(STORE_SQL["agent_by_id"], (agent,)).fetchone()
        return None if found is None else (found[0], max(self._own.get(found[0], Head(0, 0)), Head(*found[1:3])))

    def summaries(self) -> list[AgentSummary]:
        found: list[AgentSummary] = []
        for key, agent, epoch, seq, arrival, *rest in self._connection.execute(SQL["overview"]).fetchall():
            head = max(self._own.get(key, Head(0, 0)), Head(seq, arrival))
            if head.seq:
                at = self._connection.execute(SQL["event_time"], (head.id,)).fetchone()
                found.append(
                    AgentSummary._make((agent, epoch, *rest, at[0] if at is not None else None, Seq(head.seq)))
                )
        return found

    def agent_record(self, agent: AgentId) -> AgentRecord:
        return AgentRecord._make(self._connection.execute(SQL["agent_record"], (agent,)).fetchone() or (0, None, 0))

    def stored_counts(self) -> dict[str | None, tuple[int, int]]:
        return {agent: (count, last) for agent, count, last in self._connection.execute(SQL["stored_counts"])}

    def prunable(self, before: Millis) -> Prunable:
        return Prunable._make(self._connection.execute(SQL["prunable"], (before,)).fetchone())

    def sizes(self) -> tuple[int, int]:
        """Return the size of the file and its unused part, in bytes."""
        values = [int(self._connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in _SIZES]
        return values[0] * values[1], values[0] * values[2]

    def damage(self) -> list[str]:
        """Return the problems that SQLite reports."""
        told = [str(line) for (line,) in self._connection.execute("PRAGMA quick_check(20)")]
        return [line for line in told if line != "ok"]


_SIZES = ("page_size", "page_count", "freelist_count")


class ReadOnlyLog:
    """The `LogReader` of a file that may be in use."""

    noun = "file"
    poll_seconds = 0.1

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(path)
        self._readers: ReaderPool | None = None

    async def open(self) -> None:
        """Check that the file can be read without a migration.

        Raises UsageError when there is none, LogError when it is not one of ours, LogTooNew, or too old.
        """
        version, known = check_file(self.path), len(load_migrations())
        if version < known:
            cure = "it is empty" if not version else f"it has version {version}, and this everyword reads {known}"
            raise LogError(f"unable to read {self.path!r}; {cure}. Start its server once, or run `everyword rebuild`")
        self._readers = ReaderPool(lambda: _FreshReader(_connect(self.path)))

    async def aclose(self) -> None:
        if self._readers is not None:
            self._readers.close()

    async def is_served(self) -> bool:
        return holder_of(self.path) is not None

    # -- methods of LogStore -------------------------------------------------------------------------------------------

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        return await self._ask(repr(agent), lambda reader: reader.read(agent, after, limit, size))

    async def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        return await self._ask(repr(agent), lambda reader: reader.read_turn(agent, turn))

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        return await self._ask(repr(agent), lambda reader: reader.conversation(agent))

    async def kept(self, agent: AgentId) -> list[KeptRow]:
        return await self._ask(repr(agent), lambda reader: reader.kept(agent))

    async def agent_row(self, agent: AgentId) -> AgentRow | None:
        return await self._ask(repr(agent), lambda reader: reader.agent_row(agent))

    async def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None:
        return await self._ask(repr(agent), lambda reader: reader.find_turn(agent, request))

    async def agents(self, prefix: str = "") -> list[AgentId]:
        return await self._ask("the agents", lambda reader: reader.agents(prefix))

    async def turns(self, agent: AgentId, *, newest: int | None = None) -> list[TurnRow]:
        return await self._ask(repr(agent), lambda reader: reader.turns(agent, newest))

    # -- further queries of commands -----------------------------------------------------------------------------------

    async def load(self, agent: AgentId, *, recent: int = 256) -> Activation:
        for _ in range(TRIES):
            loaded = await self._ask(repr(agent), lambda reader: _load(reader, agent, recent))
            if loaded is not None:
                return loaded
        raise LogUnavailable(f"unable to read {agent!r}; it grows faster than it can be read. Try again")

    async def head(self, agent: AgentId) -> Seq:
        found = await self._ask(repr(agent), lambda reader: reader.end_of(agent))
        return Seq(0) if found is None else Seq(found[1].seq)

    async def database(self, agent: AgentId) -> bytes | None:
        path = FileBackend(self.path, "NORMAL").path(agent)
        return await asyncio.to_thread(image_from, lambda: _connect(str(path))) if path.is_file() else None

    async def summaries(self) -> list[AgentSummary]:
        return await self._ask("the agents", lambda reader: reader.summaries())

    async def agent_record(self, agent: AgentId) -> AgentRecord:
        return await self._ask(repr(agent), lambda reader: reader.agent_record(agent))

    async def stored_counts(self) -> dict[str | None, tuple[int, int]]:
        return await self._ask("the events", lambda reader: reader.stored_counts())

    async def prunable(self, before: Millis) -> Prunable:
        return await self._ask("the events", lambda reader: reader.prunable(before))

    async def sizes(self) -> tuple[int, int]:
        return await self._ask("the file", lambda reader: reader.sizes())

    async def damage(self) -> list[str]:
        return await self._ask("the file", lambda reader: reader.damage())

    async def _ask(self, what: str, work: Callable[[_FreshReader], T]) -> T:
        if self._readers is None:
            raise LogUnavailable("unable to use the store; it is not open")

        def fresh(reader: Reader) -> T:
            assert isinstance(reader, _FreshReader)
            return work(reader.refresh())

        return await self._readers.run(what, fresh)


def _connect(path: str) -> sqlite3.Connection:
    """Open a file for reading. Where the index of the write-ahead log cannot be created, read without it."""
    try:
        return _probed(f"file:{quote(path)}?mode=ro")
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_CANTOPEN or os.path.exists(f"{path}-wal"):
            raise LogUnavailable(f"unable to open {path!r}; {exc}. Check its permissions") from exc
    except sqlite3.DatabaseError as exc:
        raise LogError(f"unable to open {path!r}; {exc}. Is it an everyword database? Name another: --db PATH") from exc
    return _probed(f"file:{quote(path)}?mode=ro&immutable=1")


def check_file(path: str) -> int:
    """Return the version of the file, if this everyword knows it. Only writers migrate an older one."""
    if not os.path.isfile(path):
        raise UsageError(f"unable to read {path!r}; there is no such file. Name it: --db PATH")
    connection = _connect(path)
    try:
        check_ours(connection, path)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        known = len(load_migrations())
        if version == known and connection.execute(STORE_SQL["store_row"]).fetchone() is None:
            raise LogCorrupt(f"unable to read {path!r}; its version row is missing. Restore it from a backup")
    finally:
        connection.close()
    if version > known:
        raise LogTooNew(
            f"unable to read {path!r}; it has version {version}, and this everyword reads {known}. Upgrade everyword"
        )
    return int(version)


def holder_of(path: str | os.PathLike[str]) -> int | None:
    """Return the id of the process that owns the file, 0 if the id is unknown, None if there is no such process."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(f"{os.path.realpath(path)}.lock", os.O_RDONLY)
    except OSError:
        return None  # no lock was ever taken, or we may not read the lock file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno not in (errno.EAGAIN, errno.EACCES):
            return None
        said = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        return int(said) if said.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def _load(reader: _FreshReader, agent: AgentId, recent: int) -> Activation | None:
    """Load the agent; return None if an event was written meanwhile."""
    before = reader.end_of(agent)
    if before is None:
        raise UsageError(f"unable to read {agent!r}; there is no such agent")
    key, head = before
    loaded = reader.load(agent, TakenLease(key, reader.agent_record(agent).epoch, head), recent)
    after = reader.refresh().end_of(agent)
    return loaded if after is not None and after[1] == head else None


def _probed(uri: str) -> sqlite3.Connection:
    """Connect and read once: SQLite does not open the file before the first statement."""
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
