"""Connections to the file: durability, read-only readers, damage."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from everyword.errors import LogUnavailable
from everyword.log.sqlite.connection import Durability, is_damage, open_reader, open_writer
from everyword.log.sqlite.migrations import load_migrations


def writer(folder: Path, durability: Durability = "process") -> sqlite3.Connection:
    return open_writer(str(folder / "log.db"), durability, load_migrations(), sqlite3.Connection)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("power", 2)])
def test_durability_decides_which_commits_are_synced_to_the_disk(
    tmp_path: Path, durability: Durability, synchronous: int
) -> None:
    connection = writer(tmp_path, durability)
    assert (pragma(connection, "synchronous"), pragma(connection, "journal_mode")) == (synchronous, "wal")
    assert pragma(connection, "busy_timeout") == 5000
    connection.close()


def test_a_reader_cannot_write_and_sees_only_what_was_committed(tmp_path: Path) -> None:
    connection = writer(tmp_path)
    reader = open_reader(str(tmp_path / "log.db"), sqlite3.Connection)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("UPDATE store SET pruned = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE store SET pruned = 7")
    assert reader.execute("SELECT pruned FROM store").fetchone() == (0,)
    connection.execute("COMMIT")
    assert reader.execute("SELECT pruned FROM store").fetchone() == (7,)
    reader.close()
    connection.close()


def test_opening_a_folder_raises_log_unavailable(tmp_path: Path) -> None:
    (tmp_path / "log.db").mkdir()
    with pytest.raises(LogUnavailable, match="unable to open"):
        writer(tmp_path)


def test_damage_is_distinguished_from_an_unavailable_file(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database at all" * 100)
    connection = sqlite3.connect(tmp_path / "x.db")
    with pytest.raises(sqlite3.DatabaseError) as damage:
        connection.execute("SELECT * FROM sqlite_master")
    with pytest.raises(sqlite3.OperationalError) as other:
        connection.execute("SELECT")
    connection.close()
    assert (is_damage(damage.value), is_damage(other.value)) == (True, False)
