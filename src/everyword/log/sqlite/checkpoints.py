"""Carrying the write-ahead log into the file, without holding up those who write.

Left to itself SQLite does it inside the commit that makes the log long enough: that one commit, and all that wait for
it, then pay for two round trips to the disk. Here a connection of its own does it beside the commits. It cannot catch
up with a log that grows meanwhile, and only one that was carried over to its end is begun anew: so once the log is very
long, the writers wait for the rest of it, which is little.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Final

__all__ = ["Checkpoints"]

DUE: Final = 1000
"""Pages after which the log is carried over, as SQLite has it."""
LONGEST: Final = 8192
"""Pages of a log that is carried over to its end, whoever waits: 32 MiB."""


class Checkpoints:
    """Counts what was written, and carries it over.

    Belongs to the writer's thread. Who has the seat may `note`; everybody may ask whether it `is_due` or `is_running`.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._pages = 0
        self.is_running = False
        """Whether the thread is at it: whoever has something to write had better not wait for it."""

    @property
    def is_due(self) -> bool:
        return self._pages >= DUE

    def note(self, pages: int) -> None:
        """Count pages that were written, about."""
        self._pages += pages

    def run(self, seat: AbstractContextManager[object]) -> None:
        """Carry over what there is; takes the seat of those who write only for the rest of a very long log.

        Raises sqlite3.Error; the next time begins afresh.
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
        """Return how many pages the log had when this began."""
        if self._connection is None:
            self._connection = self._connect()
        _, length, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(length)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
