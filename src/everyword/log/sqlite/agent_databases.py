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
from ..views import AgentSource
from .agent_database import Database

__all__ = ["Databases", "FileHome", "Home", "MemoryHome"]

MOST_OPEN: Final = 64
"""How many databases are open at once; what was not used for longest is closed for the next one."""

THREADS: Final = 8
"""How many of them run a statement at the same time."""

SITTING: Final = 64
"""How many statements of one agent run before others have a turn."""


class Home(Protocol):
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


class FileHome:
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


class MemoryHome:
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


class _Desk:
    """One agent's queue and, while it is open, its database. Whoever set `is_busy` may touch the database."""

    __slots__ = ("agent", "database", "is_busy", "waiting")

    def __init__(self, agent: AgentId) -> None:
        self.agent = agent
        self.database: Database | None = None
        self.waiting: deque[tuple[Future[Any], Callable[[_Desk], Any]]] = deque()
        self.is_busy = False


class Databases:
    """All of one store's. `submit`, `release` and `drop` may be called from any thread."""

    def __init__(self, home: Home, source: Callable[[], AgentSource], *, most_open: int = MOST_OPEN) -> None:
        self._home, self._find_source, self._most_open = home, source, max(most_open, THREADS)
        self._lock = threading.Lock()
        self._desks: OrderedDict[AgentId, _Desk] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False

    def submit(self, agent: AgentId, query: str, params: Sequence[Any]) -> Future[SqlResult]:
        """Queue a statement behind those before; its result comes whether or not anybody waits for it."""
        return self._queue(agent, lambda desk: self._open(desk).run(query, params))

    def has(self, agent: AgentId) -> bool:
        """Tell whether the agent has a database."""
        with self._lock:
            desk = self._desks.get(agent)
            is_open = desk is not None and desk.database is not None  # a desk without may have removed it just now
        return is_open or self._home.has(agent)

    def release(self, agent: AgentId) -> None:
        """Close the agent's database once what is queued has run; the next statement opens it again."""
        with self._lock:
            is_known = agent in self._desks and not self._is_closed
        if is_known:
            self._queue(agent, self._shut)

    async def drop(self, agent: AgentId) -> None:
        """Run what is queued, then remove the agent's database; the next statement makes a new one.

        Raises:
            LogUnavailable: it could not be removed.
        """
        await asyncio.wrap_future(self._queue(agent, self._remove))

    @property
    def open_count(self) -> int:
        """How many are open now."""
        with self._lock:
            return sum(desk.database is not None for desk in self._desks.values())

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
        for desk in self._desks.values():
            self._shut(desk)
        self._desks.clear()

    # -- in order for each agent -----------------------------------------------------------------------------------

    def _queue(self, agent: AgentId, work: Callable[[_Desk], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # what was asked runs: nobody can take it back
        with self._lock:
            if self._is_closed:
                future.set_exception(LogUnavailable(f"unable to use the database of {agent!r}; the store is closed"))
                return future
            desk = self._desks.setdefault(agent, _Desk(agent))
            self._desks.move_to_end(agent)
            desk.waiting.append((future, work))
            if not desk.is_busy:
                desk.is_busy = True
                self._threads().submit(self._sit, desk)
        return future

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="everyword-sql")
        return self._pool

    def _sit(self, desk: _Desk) -> None:
        """Run what waits for one agent; then let others have a turn."""
        for _ in range(SITTING):
            with self._lock:
                if not desk.waiting:
                    desk.is_busy = False
                    if desk.database is None:
                        self._desks.pop(desk.agent, None)
                    return
                future, work = desk.waiting.popleft()
            _settle(future, desk, work)
        with self._lock:
            pool = self._pool
        if pool is not None:
            with suppress(RuntimeError):  # closing: what is left runs here
                pool.submit(self._sit, desk)
                return
        self._sit(desk)

    def _open(self, desk: _Desk) -> Database:
        if desk.database is None:
            self._make_room()
            try:
                connection = self._home.open(desk.agent)
            except (sqlite3.Error, OSError) as exc:
                raise SqlError(f"unable to open the database of {desk.agent!r}; {exc}") from exc
            desk.database = Database(desk.agent, connection, self._find_source())
        return desk.database

    def _make_room(self) -> None:
        """Close what was not used for longest, if as many are open as may be."""
        while True:
            with self._lock:
                opened = [desk for desk in self._desks.values() if desk.database is not None]
                idle = next((desk for desk in opened if not desk.is_busy), None)
                if len(opened) < self._most_open or idle is None:
                    return
                idle.is_busy = True
            self._shut(idle)
            self._sit(idle)  # whatever was queued meanwhile

    def _shut(self, desk: _Desk) -> None:
        database, desk.database = desk.database, None
        if database is not None:
            database.unguard()
            try:
                self._home.leave(desk.agent, database.connection)
            finally:
                database.connection.close()

    def _remove(self, desk: _Desk) -> None:
        self._shut(desk)
        try:
            self._home.drop(desk.agent)
        except OSError as exc:
            raise LogUnavailable(f"unable to remove the database of {desk.agent!r}; {exc}") from exc


def _settle(future: Future[Any], desk: _Desk, work: Callable[[_Desk], Any]) -> None:
    try:
        result = work(desk)
    except EverywordError as exc:
        future.set_exception(exc)
    except Exception as exc:  # noqa: BLE001 - whatever it was, the next statement is tried afresh
        future.set_exception(SqlError(f"unable to use the database of {desk.agent!r}; {exc!r}"))
    else:
        future.set_result(result)


def _connect(path: str) -> sqlite3.Connection:
    # No statement is kept: the guard looks at each when it is prepared, and must see all of them.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=0, uri=False)
