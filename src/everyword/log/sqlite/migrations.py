"""Migrations of the schema: `sql/migrations/0001_….sql` and on, each applied once, in order, in one transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from ...errors import LogCorrupt, LogError, LogTooNew, LogUnavailable

__all__ = ["APPLICATION_ID", "Migration", "check_ours", "load_migrations", "migrate"]

APPLICATION_ID = 0x686C6466
"""Marks a database as ours, in its header. Existing files have this number, so it never changes."""

_NAME = re.compile(r"(?P<version>\d{4})_(?P<title>\w+)\.sql")


class Migration(NamedTuple):
    version: int
    title: str
    script: str


def load_migrations(folder: Traversable | None = None) -> list[Migration]:
    """Return the migrations of `folder` by version; they must be numbered 1, 2, … without a gap."""
    folder = folder if folder is not None else files(__package__) / "sql" / "migrations"
    found = [
        Migration(int(name["version"]), name["title"], each.read_text(encoding="utf-8"))
        for each in folder.iterdir()
        if (name := _NAME.fullmatch(each.name))
    ]
    found.sort()
    assert [each.version for each in found] == list(range(1, len(found) + 1)), "migrations are not numbered 1, 2, …"
    return found


def check_ours(connection: sqlite3.Connection, path: str) -> None:
    """Raise `LogError` unless the file is empty or was made by everyword; changes nothing."""
    try:
        application = _pragma(connection, "application_id")
        is_empty = _pragma(connection, "schema_version") == 0
    except sqlite3.DatabaseError as exc:
        if isinstance(exc, sqlite3.OperationalError):
            raise LogUnavailable(f"unable to open {path!r}; {exc}") from exc
        if exc.sqlite_errorcode == sqlite3.SQLITE_CORRUPT:
            raise LogCorrupt(f"unable to open {path!r}; {exc}. Restore it from a backup") from exc
        raise LogError(f"unable to open {path!r}; {exc}. Use another `store=`, or move the file away") from exc
    if application != APPLICATION_ID and not (is_empty and application == 0):
        raise LogError(
            f"unable to open {path!r}; it is the database of another program. Use another `store=`, or move it away"
        )


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Migrate the file to the newest version, one transaction per migration.

    Raises:
        LogTooNew: the file has a newer version than `migrations`.
        LogUnavailable: a migration failed; the file stays at the version before it.
    """
    version = _pragma(connection, "user_version")
    if version > len(migrations):
        raise LogTooNew(
            f"unable to open {path!r}; it has version {version}, and this everyword knows {len(migrations)}. "
            "Upgrade everyword, or use another `store=`"
        )
    for migration in migrations[version:]:
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{migration.script}\nPRAGMA application_id = {APPLICATION_ID};\n"
                f"PRAGMA user_version = {migration.version};\nCOMMIT;"
            )
        except sqlite3.Error as exc:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise LogUnavailable(
                f"unable to migrate {path!r} to version {migration.version} ({migration.title}); {exc}. "
                f"The file is unchanged, at version {migration.version - 1}"
            ) from exc


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
