"""Open the file: one connection that writes, one for checkpoints, a few that read."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Literal

from ...errors import LogError, LogUnavailable
from .migrations import Migration, check_ours, migrate
from .statements import SQL

__all__ = ["Durability", "is_damage", "open_checkpointer", "open_reader", "open_writer"]

Durability = Literal["process", "power"]

SYNCHRONOUS: dict[Durability, str] = {"process": "NORMAL", "power": "FULL"}

BUSY_SECONDS = 5.0
"""Seconds to wait for another program (a backup, a shell) that has locked the file."""

STATEMENTS = 256
"""Prepared statements that a connection caches: an insert of one row, of two, of three … is one each."""

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def open_writer(
    path: str, durability: Durability, migrations: Sequence[Migration], factory: type[sqlite3.Connection]
) -> sqlite3.Connection:
    """Open, check, set up and migrate the file. The caller must hold its lock. For one thread at a time."""
    connection = _connect(path, factory, check_same_thread=False)
    try:
        check_ours(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # see checkpoints.py
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA secure_delete = ON")  # an erased word must not stay in a page that is free now
        # A burst may grow the write-ahead log; afterwards it is truncated to 64 MiB.
        connection.execute("PRAGMA journal_size_limit = 67108864")
        migrate(connection, path, migrations)
        connection.execute(SQL["create_doomed"])
    except sqlite3.Error as exc:
        connection.close()
        raise LogUnavailable(f"unable to open {path!r}; {exc}") from exc
    except LogError:
        connection.close()
        raise
    return connection


def open_reader(path: str, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    """Open the file for reading. Another thread than the one that reads may close the connection."""
    connection = _connect(path, factory, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA cache_size = -8192")
    return connection


def open_checkpointer(path: str, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    """Open the file for checkpoints only."""
    connection = _connect(path, factory)
    connection.execute("PRAGMA cache_size = 0")
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Return True if the error means that stored bytes are damaged, not that the file is unavailable."""
    code = getattr(error, "sqlite_errorcode", None)
    # `sqlite3` itself raises errors without a code, for text that is not UTF-8.
    return isinstance(error, sqlite3.DatabaseError) and (code is None or code & 0xFF in _DAMAGE)


def _connect(path: str, factory: type[sqlite3.Connection], *, check_same_thread: bool = True) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=check_same_thread,
            factory=factory,
            cached_statements=STATEMENTS,
        )
    except sqlite3.Error as exc:
        raise LogUnavailable(f"unable to open {path!r}; {exc}. Its folder must exist and be writable") from exc
