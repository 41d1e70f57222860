"""The agents' own databases: opened when first used, each by one thread at a time, a bounded number at once.

Nothing here belongs to the event loop: a statement is queued, and a few threads run what is queued, in order for each
agent. So whoever waits for a result may wait in a coroutine, or with its whole thread.
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

__all__ = ["DatabaseBackend", "FileBackend", "MemoryBackend", "SqliteAgentDatabases"]

MAX_OPEN: Final = 64
"""How many databases are open at once; what was not used for longest is closed for the next one."""

THREADS: Final = 8
"""How many of them run a statement at the same time."""

STATEMENTS_PER_RUN: Final = 64
"""How many statements of one agent run before others have a turn."""


class DatabaseBackend(Protocol):
    """Where databases are when they are not open."""

    def open(self, agent: AgentId) -> sqlite3.Connection: ...

    def leave(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        """Keep what the connection has; it is closed afterwards."""
        ...

    def has(self, agent: AgentId) -> bool:
        """Tell whether there is one, open or not."""
        ...

    def drop(self, agent: AgentId) -> None:
        """Remove the agent's database, if there is one; it is not open."""
        ...


class FileBackend:
    """A file per agent, in a folder per kind, beside the log: `<log>.agents/<kind>/<hash>.db`."""

    def __init__(self, log_path: str, synchronous: str) -> None:
        self._folder, self._synchronous = Path(f"{log_path}.agents"), synchronous

    def path(self, agent: AgentId) -> Path:
        """Return where the agent's database is. Names may be anything, so the file has their hash."""
        kind = split_agent_id(agent)[0]
        return self._folder / kind / f"{hashlib.sha256(agent.encode()).hexdigest()[:40]}.db"

    def open(self, agent: AgentId) -> sqlite3.Connection:
        path = self.path(agent)
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connect(str(path))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    def leave(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        pass

    def has(self, agent: AgentId) -> bool:
        return self.path(agent).is_file()

    def drop(self, agent: AgentId) -> None:
        path = self.path(agent)
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.remove(f"{path}{end}")


class MemoryBackend:
    """Bytes per agent, for a store that is gone with the process."""

    def __init__(self) -> None:
        self._kept: dict[AgentId, bytes] = {}

    def open(self, agent: AgentId) -> sqlite3.Connection:
        connection = _connect(":memory:")
        kept = self._kept.get(agent)
        if kept is not None:
            connection.deserialize(kept)
        return connection

    def leave(self, agent: AgentId, connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if pages:  # what was never written to has nothing to keep
            self._kept[agent] = connection.serialize()

    def has(self, agent: AgentId) -> bool:
        return agent in self._kept

    def drop(self, agent: AgentId) -> None:
        self._kept.pop(agent, None)


class _AgentQueue:
    """One agent's queue and, while it is open, its database. Whoever set `is_busy` may touch the database."""

    __slots__ = ("agent", "database", "is_busy", "waiting")

    def __init__(self, agent: AgentId) -> None:
        self.agent = agent
        self.database: AgentDatabase | None = None
        self.waiting: deque[tuple[Future[Any], Callable[[_AgentQueue], Any]]] = deque()
        self.is_busy = False


class SqliteAgentDatabases:
    """All of one store's. `submit`, `release` and `drop` may be called from any thread."""

    def __init__(self, backend: DatabaseBackend, source: Callable[[], ViewSource], *, max_open: int = MAX_OPEN) -> None:
        self._backend, self._find_source, self._max_open = backend, source, max(max_open, THREADS)
        self._lock = threading.Lock()
        self._queues: OrderedDict[AgentId, _AgentQueue] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False

    def submit(self, agent: AgentId, query: str, params: Sequence[Any]) -> Future[SqlResult]:
        """Queue a statement behind those before; its result comes whether or not anybody waits for it."""
        return self._enqueue(agent, lambda queue: self._open(queue).run(query, params))

    def has(self, agent: AgentId) -> bool:
        """Tell whether the agent has a database."""
        with self._lock:
            queue = self._queues.get(agent)
            is_open = queue is not None and queue.database is not None  # a queue without may have removed it just now
        return is_open or self._backend.has(agent)

    def release(self, agent: AgentId) -> None:
        """Close the agent's database once what is queued has run; the next statement opens it again."""
        with self._lock:
            is_known = agent in self._queues and not self._is_closed
        if is_known:
            self._enqueue(agent, self._close)

    async def drop(self, agent: AgentId) -> None:
        """Run what is queued, then remove the agent's database; the next statement makes a new one.

        Raises:
            LogUnavailable: it could not be removed.
        """
        await asyncio.wrap_future(self._enqueue(agent, self._remove))

    @property
    def open_count(self) -> int:
        """How many are open now."""
        with self._lock:
            return sum(queue.database is not None for queue in self._queues.values())

    async def aclose(self) -> None:
        """Run what is queued, close everything, end the threads. Idempotent; `reopen` makes it usable again."""
        with self._lock:
            self._is_closed, pool, self._pool = True, self._pool, None
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._end, pool)

    def reopen(self) -> None:
        """Take statements again after `aclose`."""
        self._is_closed = False

    def _end(self, pool: ThreadPoolExecutor) -> None:
        pool.shutdown()
        for queue in self._queues.values():
            self._close(queue)
        self._queues.clear()

    # -- in order for each agent -----------------------------------------------------------------------------------

    def _enqueue(self, agent: AgentId, work: Callable[[_AgentQueue], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # what was asked runs: nobody can take it back
        with self._lock:
            if self._is_closed:
                future.set_exception(LogUnavailable(f"unable to use the database of {agent!r}; the store is closed"))
                return future
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
        """Run what waits for one agent; then let others have a turn."""
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
            with suppress(RuntimeError):  # closing: what is left runs here
                pool.submit(self._run_queue, queue)
                return
        self._run_queue(queue)

    def _open(self, queue: _AgentQueue) -> AgentDatabase:
        if queue.database is None:
            self._make_room()
            try:
                connection = self._backend.open(queue.agent)
            except (sqlite3.Error, OSError) as exc:
                raise SqlError(f"unable to open the database of {queue.agent!r}; {exc}") from exc
            queue.database = AgentDatabase(queue.agent, connection, self._find_source())
        return queue.database

    def _make_room(self) -> None:
        """Close what was not used for longest, if as many are open as may be."""
        while True:
            with self._lock:
                opened = [queue for queue in self._queues.values() if queue.database is not None]
                idle = next((queue for queue in opened if not queue.is_busy), None)
                if len(opened) < self._max_open or idle is None:
                    return
                idle.is_busy = True
            self._close(idle)
            self._run_queue(idle)  # whatever was queued meanwhile

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
            raise LogUnavailable(f"unable to remove the database of {queue.agent!r}; {exc}") from exc


def _settle(future: Future[Any], queue: _AgentQueue, work: Callable[[_AgentQueue], Any]) -> None:
    try:
        result = work(queue)
    except EverywordError as exc:
        future.set_exception(exc)
    except Exception as exc:  # noqa: BLE001 - whatever it was, the next statement is tried afresh
        future.set_exception(SqlError(f"unable to use the database of {queue.agent!r}; {exc!r}"))
    else:
        future.set_result(result)


def _connect(path: str) -> sqlite3.Connection:
    # No statement is kept: the guard looks at each when it is prepared, and must see all of them.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=0, uri=False)
