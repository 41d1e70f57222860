"""The SQL databases of the agents: opened at first use, used by one thread at a time, a limited number open at once.

Nothing here needs the event loop: statements are queued, and a few threads run them, in order for each agent. So a
caller may wait for a result in a coroutine or block its thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from ...errors import EverywordError, LogUnavailable, SqlError
from ...ids import AgentId, split_agent_id
from ..base import SqlResult
from ..views import ViewSource
from .agent_database import AgentDatabase

__all__ = ["DatabaseBackend", "FileBackend", "MemoryBackend", "SqliteAgentDatabases", "connect_agent_database"]

MAX_OPEN: Final = 64
"""Databases open at once; to open another, the least recently used one is closed."""

THREADS: Final = 8
"""Databases that run a statement at the same time."""

STATEMENTS_PER_RUN: Final = 64
"""Statements of one agent that run before other agents get the thread."""


class DatabaseBackend(Protocol):
    """Where databases are stored. A backend that derives from this class has the defaults of a store of one process."""

    @property
    def if_full(self) -> str | None:
        """What to tell the author of a statement for which there is no room; None, the default, for SQLite's words."""
        return None

    @property
    def is_over_memory(self) -> bool:
        """True while the open databases take more memory than they may: idle ones are closed then."""
        return False

    def admit(self, agent: AgentId) -> object:
        """Return the right under which a statement that is queued now will run; raise if there is none.

        Called from any thread; must not wait. A database that was opened under another right is opened again.
        """
        return None

    def open(self, agent: AgentId, right: Any) -> sqlite3.Connection: ...

    def save(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        """Store what a statement may have written. If this raises, the database is closed, and opened again later."""
        return

    def leave(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        """Called before the connection is closed."""
        return

    async def has(self, agent: AgentId) -> bool:
        """Return True if the agent has a stored database."""
        ...

    def drop(self, agent: AgentId) -> None:
        """Delete the agent's database, if it has one. It is not open."""
        ...

    def restore(self, agent: AgentId, right: Any, image: bytes) -> None:
        """Put an image in the place of the agent's database, as a whole or not at all. The database is not open."""
        ...


class FileBackend(DatabaseBackend):
    """One file per agent, in one folder per kind, beside the log: `<log>.agents/<kind>/<hash>.db`."""

    def __init__(self, log_path: str, synchronous: str) -> None:
        self._folder, self._synchronous = Path(f"{log_path}.agents"), synchronous

    def path(self, agent: AgentId) -> Path:
        """Return the path of the agent's database. It has a hash of the id, because names may have any characters."""
        kind = split_agent_id(agent)[0]
        return self._folder / kind / f"{hashlib.sha256(agent.encode()).hexdigest()[:40]}.db"

    def open(self, agent: AgentId, right: object) -> sqlite3.Connection:
        path = self.path(agent)
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = connect_agent_database(str(path))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    async def has(self, agent: AgentId) -> bool:
        return self.path(agent).is_file()

    def drop(self, agent: AgentId) -> None:
        path = self.path(agent)
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.remove(f"{path}{end}")

    def restore(self, agent: AgentId, right: object, image: bytes) -> None:
        path = self.path(agent)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = f"{path}.new"
        with open(new, "wb") as file:
            file.write(image)
            file.flush()
            os.fsync(file.fileno())
        self.drop(agent)  # with its write-ahead log, which does not fit the new file
        os.replace(new, path)


class MemoryBackend(DatabaseBackend):
    """Bytes per agent, for a store that is lost when the process ends."""

    def __init__(self) -> None:
        self._kept: dict[AgentId, bytes] = {}

    def open(self, agent: AgentId, right: object) -> sqlite3.Connection:
        connection = connect_agent_database(":memory:")
        kept = self._kept.get(agent)
        if kept is not None:
            connection.deserialize(kept)
        return connection

    def leave(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if pages:  # a database that was never written to has nothing to store
            self._kept[agent] = connection.serialize()

    async def has(self, agent: AgentId) -> bool:
        return agent in self._kept

    def drop(self, agent: AgentId) -> None:
        self._kept.pop(agent, None)

    def restore(self, agent: AgentId, right: object, image: bytes) -> None:
        self._kept[agent] = image


class _AgentQueue:
    """The queue of one agent and its database, if that is open. The thread that set `is_busy` may use the database."""

    __slots__ = ("agent", "database", "is_busy", "right", "waiting")

    def __init__(self, agent: AgentId) -> None:
        self.agent = agent
        self.database: AgentDatabase | None = None
        self.right: object = None
        """The right under which the database was opened."""
        self.waiting: deque[tuple[Future[Any], Callable[[_AgentQueue], Any]]] = deque()
        self.is_busy = False


class SqliteAgentDatabases:
    """The databases of one store. `submit`, `release` and `drop` may be called from any thread."""

    def __init__(self, backend: DatabaseBackend, source: Callable[[], ViewSource], *, max_open: int = MAX_OPEN) -> None:
        self._backend, self._find_source, self._max_open = backend, source, max(max_open, THREADS)
        self._lock = threading.Lock()
        self._queues: OrderedDict[AgentId, _AgentQueue] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False

    def submit(self, agent: AgentId, query: str, params: Sequence[Any]) -> Future[SqlResult]:
        """Queue a statement. The statements of one agent run in order, even if no caller waits for the result."""
        try:
            right = None if self._is_closed else self._backend.admit(agent)
        except EverywordError as exc:
            return _failed(exc)
        return self._enqueue(agent, lambda queue: self._run(queue, right, query, params))

    async def has(self, agent: AgentId) -> bool:
        """Return True if the agent has a database."""
        with self._lock:
            queue = self._queues.get(agent)
            is_open = queue is not None and queue.database is not None  # if not, it may have been dropped just now
        return is_open or await self._backend.has(agent)

    def release(self, agent: AgentId) -> Future[None]:
        """Close the agent's database after the queued statements; the next statement opens it again."""
        with self._lock:
            is_known = agent in self._queues and not self._is_closed
        if is_known:
            return self._enqueue(agent, self._close)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    async def drop(self, agent: AgentId) -> None:
        """Run the queued statements, then delete the agent's database; the next statement makes a new one.

        Raises:
            LogUnavailable: the database could not be deleted.
        """
        await asyncio.wrap_future(self._enqueue(agent, self._remove))

    async def restore(self, agent: AgentId, image: bytes) -> None:
        """Run the queued statements, then replace the agent's database. `image` is a SQLite file in rollback mode."""
        right = self._backend.admit(agent)
        await asyncio.wrap_future(self._enqueue(agent, lambda queue: self._replace(queue, right, image)))

    @property
    def open_count(self) -> int:
        """The number of open databases."""
        with self._lock:
            return sum(queue.database is not None for queue in self._queues.values())

    async def aclose(self) -> None:
        """Run the queued statements, close all databases, end the threads. Idempotent; `reopen` undoes it."""
        with self._lock:
            self._is_closed, pool, self._pool = True, self._pool, None
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._end, pool)

    def reopen(self) -> None:
        """Accept statements again after `aclose`."""
        self._is_closed = False

    def _end(self, pool: ThreadPoolExecutor) -> None:
        pool.shutdown()
        for queue in self._queues.values():
            self._close(queue)
        self._queues.clear()

    # -- in order for each agent -----------------------------------------------------------------------------------

    def _enqueue(self, agent: AgentId, work: Callable[[_AgentQueue], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # a queued statement cannot be cancelled
        with self._lock:
            if self._is_closed:
                return _failed(LogUnavailable(f"unable to use the database of {agent!r}; the store is closed"))
            queue = self._queues.setdefault(agent, _AgentQueue(agent))
            self._queues.move_to_end(agent)
            queue.waiting.append((future, work))
            if not queue.is_busy:
                queue.is_busy = True
                self._threads().submit(self._run_queue, queue)
        return future

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="everyword-sql")
        return self._pool

    def _run_queue(self, queue: _AgentQueue) -> None:
        """Run the statements of one agent, at most STATEMENTS_PER_RUN of them, then go to the end of the line."""
        for _ in range(STATEMENTS_PER_RUN):
            with self._lock:
                if not queue.waiting:
                    queue.is_busy = False
                    if queue.database is None:
                        self._queues.pop(queue.agent, None)
                    return
                future, work = queue.waiting.popleft()
            _settle(future, queue, work)
        with self._lock:
            pool = self._pool
        if pool is not None:
            with suppress(RuntimeError):  # the pool is shut down: run the rest here
                pool.submit(self._run_queue, queue)
                return
        self._run_queue(queue)

    def _run(self, queue: _AgentQueue, right: object, query: str, params: Sequence[Any]) -> SqlResult:
        database = self._open(queue, right)
        try:
            return database.run(query, params)
        finally:
            if database.may_have_written:
                self._save(queue, database)

    def _save(self, queue: _AgentQueue, database: AgentDatabase) -> None:
        try:
            self._backend.save(queue.agent, database.connection)
        except BaseException:
            self._close(queue)  # it has what the store may not have
            raise
        self._free_memory()

    def _open(self, queue: _AgentQueue, right: object) -> AgentDatabase:
        if queue.database is not None and queue.right != right:
            self._close(queue)
        if queue.database is None:
            self._close_idle(lambda opened: opened >= self._max_open)
            try:
                connection = self._backend.open(queue.agent, right)
            except (sqlite3.Error, OSError) as exc:
                raise SqlError(f"unable to open the database of {queue.agent!r}; {exc}") from exc
            queue.right = right
            queue.database = AgentDatabase(queue.agent, connection, self._find_source(), if_full=self._backend.if_full)
            self._free_memory()
        return queue.database

    def _free_memory(self) -> None:
        self._close_idle(lambda _: self._backend.is_over_memory)

    def _close_idle(self, is_too_much: Callable[[int], bool]) -> None:
        """Close databases while there is too much, the least recently used first. It is given the number of open ones.

        A database that runs a statement stays open.
        """
        while True:
            with self._lock:
                opened = [queue for queue in self._queues.values() if queue.database is not None]
                idle = next((queue for queue in opened if not queue.is_busy), None)
                if idle is None or not is_too_much(len(opened)):
                    return
                idle.is_busy = True
            self._close(idle)
            self._run_queue(idle)  # statements that were queued in the meantime

    def _close(self, queue: _AgentQueue) -> None:
        database, queue.database = queue.database, None
        if database is not None:
            database.detach()
            try:
                self._backend.leave(queue.agent, database.connection)
            finally:
                database.connection.close()

    def _remove(self, queue: _AgentQueue) -> None:
        self._close(queue)
        try:
            self._backend.drop(queue.agent)
        except OSError as exc:
            raise LogUnavailable(f"unable to delete the database of {queue.agent!r}; {exc}") from exc

    def _replace(self, queue: _AgentQueue, right: object, image: bytes) -> None:
        self._close(queue)
        try:
            self._backend.restore(queue.agent, right, image)
        except OSError as exc:
            raise LogUnavailable(f"unable to write the database of {queue.agent!r}; {exc}") from exc


def _settle(future: Future[Any], queue: _AgentQueue, work: Callable[[_AgentQueue], Any]) -> None:
    try:
        result = work(queue)
    except EverywordError as exc:
        future.set_exception(exc)
    except Exception as exc:  # noqa: BLE001 - the thread survives any error, and runs the next statement
        future.set_exception(SqlError(f"unable to use the database of {queue.agent!r}; {exc!r}"))
    else:
        future.set_result(result)


def _failed(why: EverywordError) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(why)
    return future


def connect_agent_database(path: str) -> sqlite3.Connection:
    """Open a database for the statements of an agent."""
    # No statement is cached: SQLite asks the authorizer when a statement is prepared, and each must be checked.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=0, uri=False)
    connection.execute("PRAGMA secure_delete = ON")  # what the agent deletes is overwritten
    return connection
