"""Checkpoints: copy the write-ahead log (WAL) into the file without delaying commits.

By default SQLite does it inside the commit that makes the WAL long enough: that commit, and all commits behind it, then
wait for two syncs of the disk. Here a separate connection does it beside the commits. It cannot catch up while the WAL
grows, and SQLite starts the WAL over only after a complete checkpoint. So once the WAL is very long, the writers wait
while the rest of it, which is short, is copied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Final

__all__ = ["Checkpoints"]

DUE: Final = 1000
"""Pages of the WAL after which a checkpoint is due, as in SQLite."""
LONGEST: Final = 8192
"""Pages of the WAL (32 MiB) from which on writers wait for a complete checkpoint."""


class Checkpoints:
    """Counts the pages that were written, and runs checkpoints.

    Belongs to the writer's thread. `note` needs the writer's lock; any thread may read `is_due` and `is_running`.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._pages = 0
        self.is_running = False
        """True during a checkpoint: a commit should not wait for the writer's thread then."""

    @property
    def is_due(self) -> bool:
        return self._pages >= DUE

    def note(self, pages: int) -> None:
        """Count pages that were written; an estimate is enough."""
        self._pages += pages

    def run(self, seat: AbstractContextManager[object]) -> None:
        """Run a checkpoint. Takes `seat`, the writer's lock, only to finish a very long WAL.

        Raises sqlite3.Error; the next call opens a new connection.
        """
        self._pages, self.is_running = 0, True
        try:
            if self._carry() < LONGEST:
                return
            with seat:
                self._carry()
        except sqlite3.Error:
            self.close()
            raise
        finally:
            self.is_running = False

    def _carry(self) -> int:
        """Run one checkpoint; return the number of pages that the WAL had when it started."""
        if self._connection is None:
            self._connection = self._connect()
        _, length, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(length)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
