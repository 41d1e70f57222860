"""A disk that fails on demand: connections that raise errors, wait, and record their statements."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from everyword.ids import AgentId
from everyword.log.sqlite.statements import SQL, many_rows
from everyword.log.sqlite.store import SqliteLog

DISK_FULL = sqlite3.OperationalError("database or disk is full")
BROKEN = sqlite3.OperationalError("disk I/O error")
LOCKED = sqlite3.OperationalError("database is locked")

TAKING_ROWS = ("append_event", "put_mark", "put_turn", "put_message", "put_agents", "put_wake")
_NAMES = {text: name for name, text in SQL.items()}
_NAMES |= {many_rows(SQL[name], count): name for name in TAKING_ROWS for count in range(1, 513)}


class Faults:
    """What the writer's connections do.

    `failing` maps a statement (its name, or `BEGIN`, `COMMIT`, `ROLLBACK`) to the error that it raises. `gate` blocks
    the next transaction until it is set, like the lock of another program. `pages` limits the size of the file. `hook`
    is called with the name of every statement. `executed` has the names of all statements.
    """

    def __init__(self) -> None:
        self.failing: dict[str, sqlite3.Error] = {}
        self.gate: threading.Event | None = None
        self.pages: int | None = None
        self.hook: Callable[[str], None] | None = None
        self.executed: list[str] = []
        self.opened = 0

    def factory(self) -> type[sqlite3.Connection]:
        faults = self

        class Connection(sqlite3.Connection):
            is_writer = False

            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                self._before(sql)
                return super().execute(sql, *values)

            def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
                self._before(sql)
                return super().executemany(sql, *values)

            def _before(self, sql: str) -> None:
                if sql.startswith("PRAGMA journal_mode"):
                    self.is_writer = True
                    faults.opened += 1
                if not self.is_writer or sql.startswith("PRAGMA"):
                    return
                name = _NAMES.get(sql, sql.split(maxsplit=1)[0])
                if name == "BEGIN":
                    if faults.gate is not None:
                        if threading.current_thread().name != "everyword-writer":
                            raise LOCKED  # the event loop does not wait for a lock
                        faults.gate.wait(20)
                    super().execute(f"PRAGMA max_page_count = {faults.pages or 2**30}")
                faults.executed.append(name)
                if faults.hook is not None:
                    faults.hook(name)
                if name in faults.failing:
                    raise faults.failing[name]

        return Connection


@asynccontextmanager
async def opened(folder: Path, faults: Faults | None = None, **options: Any) -> AsyncIterator[SqliteLog]:
    """Open a store in `folder` with these faults. With `durability="power"` the thread makes all commits."""
    factory = sqlite3.Connection if faults is None else faults.factory()
    store = SqliteLog(folder / "log.db", factory=factory, **options)
    await store.open()
    if faults is not None:
        faults.executed.clear()
    try:
        yield store
    finally:
        if faults is not None:
            faults.failing.clear()
            faults.pages = None
        await store.aclose()


def look(folder: Path, question: str) -> list[Any]:
    """Query the file directly, without the store."""
    connection = sqlite3.connect(folder / "log.db")
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def change(folder: Path, statement: str) -> None:
    """Change the file directly, without the store."""
    connection = sqlite3.connect(folder / "log.db")
    try:
        with connection:
            connection.execute(statement)
    finally:
        connection.close()


async def hold_writer(store: SqliteLog, faults: Faults) -> Callable[[], None]:
    """Let the writer's thread wait in a transaction; what is asked of the store meanwhile is the next transaction.

    Call the returned function to let it go on.
    """
    gate = faults.gate = threading.Event()
    held = asyncio.ensure_future(store.activate(AgentId("chat/held")))
    held.add_done_callback(lambda done: done.exception())
    while not store._opened[0]._is_thread_writing:  # type: ignore[index]  # noqa: ASYNC110 - a few iterations
        await asyncio.sleep(0)

    def release() -> None:
        faults.gate = None
        gate.set()

    return release
