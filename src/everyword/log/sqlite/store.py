"""The store that keeps all logs in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial

from ...errors import LogUnavailable, UsageError
from ...ids import AgentId, Epoch, Millis, RequestId, Seq, TurnId
from ...rows import AgentRow, KeptRow, MessageRow, Row, TurnRow
from ..base import Activation, Batch, Pruned, Stored
from ..erasing import StoreErasure
from ..lists import AgentLists
from ..nodes import NodeMembership
from ..receipt import Receipt
from .agent_databases import FileBackend, SqliteAgentDatabases
from .checkpoints import Checkpoints
from .commit_policy import CommitPolicy
from .connection import SYNCHRONOUS, Durability, open_checkpointer, open_reader, open_writer
from .erasing import SqliteErasure
from .files import DatabaseFiles
from .leases import Head, TakenLease
from .lists import SqliteLists
from .lock import FileLock
from .migrations import load_migrations
from .queries import Reader
from .reader_pool import ReaderPool
from .retention import Sweep
from .stream_erasure import StreamErasure, erase_streams
from .transaction import Destruction, Replacement, Transaction
from .view_source import FileViewSource
from .write_connection import WriteConnection
from .writer import ROW, Writer
from .writer_thread import WriterThread

__all__ = ["SqliteLog"]


class SqliteLog:
    """A `LogStore` and `LogAdmin` on disk, for one process and one event loop: the one that calls `open`.

    Args:
        path: The database file; made if it is not there, its folder must be. `<path>.lock` is put beside it, and
            `<path>.agents` when an agent uses a database of its own.
        durability: "process" survives the death of this process, "power" that of the machine as well.
        lock_timeout: Seconds to wait for another process that has the file.
        factory: The class of the connections, for tests that let a disk fail.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "process",
        lock_timeout: float = 30.0,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise UsageError(f"unable to use durability {durability!r}; it is 'process' or 'power'")
        if os.fspath(path) in ("", ":memory:"):
            raise UsageError('unable to keep a log in SQLite\'s memory; use MemoryLog, or `store="memory:"`')
        # A link to the file must find the same lock.
        self._path = os.path.realpath(path)
        self._durability: Durability = durability
        self._lock_timeout = lock_timeout
        self._factory = factory
        self._heads: dict[int, Head] = {}
        self._opened: tuple[Writer, ReaderPool] | None = None
        self.files = DatabaseFiles(self._path)
        self.nodes: NodeMembership | None = None
        self.lists: AgentLists | None = None
        self.erasure: StoreErasure | None = None
        self._source = FileViewSource(self._open_reader, self._heads)
        self.databases = SqliteAgentDatabases(FileBackend(self._path, SYNCHRONOUS[durability]), lambda: self._source)

    @property
    def path(self) -> str:
        """The database file, with links resolved."""
        return self._path

    async def open(self) -> None:
        if self._opened is not None:
            raise UsageError("unable to open the store; it was opened before. Call `open` once")
        connect = partial(open_writer, self._path, self._durability, load_migrations(), self._factory)
        readers = ReaderPool(lambda: Reader(self._open_reader(), self._heads))
        checkpoints = Checkpoints(self._open_checkpointer)
        connection = WriteConnection(connect, self._heads, self.files, checkpoints)
        lock = FileLock(self._path)
        thread = WriterThread(connection, checkpoints, self.files, readers, lock, self._lock_timeout)
        policy = CommitPolicy(may_use_loop=self._durability == "process")
        writer = Writer(connection, thread, policy, checkpoints, self.files)
        self._opened = writer, readers
        self.lists = SqliteLists(readers)
        self.erasure = SqliteErasure(writer, readers, self._open_checkpointer)
        await writer.start()

    async def aclose(self) -> None:
        if self._opened is not None:
            await self.databases.aclose()
            self._source.close()
            await self._opened[0].stop()

    async def activate(self, agent: AgentId, *, recent: int = 256) -> Activation:
        grant: TakenLease = await self._writer.submit(Transaction.take_lease, agent, agent, ROW)
        if grant.is_first:
            return Activation(Epoch(grant.epoch), Seq(0), None, [], [], [], [])
        return await self._readers.run(repr(agent), lambda reader: reader.load(agent, grant, recent))

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        return self._writer.append(batches)

    async def destroy(self, agent: AgentId, epoch: Epoch) -> None:
        await self._writer.submit(Transaction.destroy, Destruction(agent, epoch), agent)

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        return await self._readers.run(repr(agent), lambda reader: reader.read(agent, after, limit, size))

    async def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        return await self._readers.run(repr(agent), lambda reader: reader.read_turn(agent, turn))

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        return await self._readers.run(repr(agent), lambda reader: reader.conversation(agent))

    async def kept(self, agent: AgentId) -> list[KeptRow]:
        return await self._readers.run(repr(agent), lambda reader: reader.kept(agent))

    async def has(self, agent: AgentId) -> bool:
        return await self._readers.run(repr(agent), lambda reader: reader.has(agent))

    async def agents(self, prefix: str = "") -> list[AgentId]:
        return await self._readers.run("the agents", lambda reader: reader.agents(prefix))

    async def agents_named(self, prefix: str, *, after: str = "", limit: int = 500) -> list[AgentId]:
        return await self._readers.run("the agents", lambda reader: reader.agents_named(prefix, after, limit))

    async def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None:
        return await self._readers.run(repr(agent), lambda reader: reader.find_turn(agent, request))

    async def due(self, until: Millis, limit: int = 1000) -> list[tuple[AgentId, Millis]]:
        return await self._readers.run("the wake times", lambda reader: reader.due(until, limit))

    async def next_wake(self) -> Millis | None:
        return await self._readers.run("the wake times", Reader.next_wake)

    async def prune(self, before: Millis, *, limit: int = 2000) -> Pruned:
        return await self._writer.sweep(Sweep(before, limit))

    async def erase_streams(self, agent: AgentId, until: Millis, *, limit: int = 20) -> int:
        erased: int = await self._writer.submit(erase_streams, StreamErasure(agent, until, limit), agent)
        return erased

    async def replace_rows(self, agent: AgentId, rows: Iterable[Row], wake: Millis | None) -> None:
        replacement = Replacement(agent, list(rows), wake)
        await self._writer.submit(Transaction.replace, replacement, agent)

    async def turns(self, agent: AgentId, *, newest: int | None = None) -> list[TurnRow]:
        return await self._readers.run(repr(agent), lambda reader: reader.turns(agent, newest))

    def _open_reader(self) -> sqlite3.Connection:
        self.files.check()  # a new connection would open whatever is there now
        return open_reader(self._path, self._factory)

    def _open_checkpointer(self) -> sqlite3.Connection:
        self.files.check()
        return open_checkpointer(self._path, self._factory)

    @property
    def _writer(self) -> Writer:
        if self._opened is None:
            raise LogUnavailable("unable to use the store; it is not open")
        return self._opened[0]

    @property
    def _readers(self) -> ReaderPool:
        if self._opened is None:
            raise LogUnavailable("unable to use the store; it is not open")
        return self._opened[1]
