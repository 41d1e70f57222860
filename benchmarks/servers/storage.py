"""The least that a server can do to store what it sends: one row per batch, one commit for all that waits."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from contextlib import suppress
from typing import Any

__all__ = ["Storage"]

Row = tuple[str, str, bytes]
"""Agent, kind (a request id for frames, "message" for messages), bytes."""

_Job = tuple[list[Row], "asyncio.Future[None]"]


class Storage:
    """Rows in order of arrival, written by one thread; what arrives during a commit is the next one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._reader = self._connect(create=True)
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, daemon=True).start()

    def write(self, rows: list[Row]) -> asyncio.Future[None]:
        """Return what is done once the rows are committed."""
        written: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((rows, written))
        return written

    def read(self, agent: str, kind: str) -> list[bytes]:
        """Return what is stored, in order; on the loop, since nothing else goes on while it is asked."""
        rows = self._reader.execute("SELECT body FROM row WHERE agent = ? AND kind = ? ORDER BY id", (agent, kind))
        return [body for (body,) in rows]

    def _connect(self, *, create: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if create:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS row (id INTEGER PRIMARY KEY, agent TEXT, kind TEXT, body BLOB)"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS row_messages ON row (agent) WHERE kind = 'message'")
        return connection

    def _run(self) -> None:
        connection = self._connect()
        while True:
            jobs = [self._queue.get()]
            with suppress(queue.Empty):
                while True:
                    jobs.append(self._queue.get_nowait())
            connection.execute("BEGIN")
            rows = [row for rows, _ in jobs for row in rows]
            connection.executemany("INSERT INTO row (agent, kind, body) VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_settle, jobs)


def _settle(jobs: list[Any]) -> None:
    for _, written in jobs:
        if not written.done():
            written.set_result(None)
