"""Migrations: numbered without gaps, applied in one transaction each, and only to files of everyword."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from everyword.errors import LogError, LogTooNew, LogUnavailable
from everyword.log.sqlite.migrations import APPLICATION_ID, Migration, check_ours, load_migrations, migrate
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import FOREVER, A, B, Owner, ended_row, fact
from tests.log.sqlite.faults import change, look, opened

FIRST = Migration(1, "first", "CREATE TABLE one (a INTEGER);\nINSERT INTO one VALUES (1);")
SECOND = Migration(2, "second", "ALTER TABLE one ADD COLUMN b TEXT;\nUPDATE one SET b = 'x';")
BROKEN = Migration(2, "broken", "CREATE TABLE two (a INTEGER);\nUPDATE one SET a = 2;\nINSERT INTO nowhere VALUES (1);")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    found = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    yield found
    found.close()


def schema(connection: sqlite3.Connection) -> list[object]:
    tables = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
    return [*tables, version(connection), connection.execute("PRAGMA application_id").fetchone()]


def version(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    migrations = load_migrations()
    assert [each.version for each in migrations] == list(range(1, len(migrations) + 1))
    assert migrations


def test_a_gap_in_the_numbers_is_noticed(tmp_path: Path) -> None:
    for name in ("0001_a.sql", "0003_c.sql", "README.md"):
        (tmp_path / name).write_text("")
    with pytest.raises(AssertionError, match="numbered"):
        load_migrations(tmp_path)
    (tmp_path / "0002_b.sql").write_text("SELECT 1;")
    assert [each.title for each in load_migrations(tmp_path)] == ["a", "b", "c"]


@pytest.mark.parametrize("start", range(len(load_migrations()) + 1))
def test_a_migrated_file_equals_a_fresh_one(tmp_path: Path, start: int) -> None:
    migrations = load_migrations()
    found = []
    for name, first in (("fresh", 0), ("old", start)):
        connection = sqlite3.connect(tmp_path / name, isolation_level=None)
        if first:
            migrate(connection, name, migrations[:first])
            assert version(connection) == first
        migrate(connection, name, migrations)
        found.append(schema(connection))
        connection.close()
    assert found[0] == found[1]


def test_migrations_are_applied_once_each(connection: sqlite3.Connection) -> None:
    migrate(connection, "x", [FIRST])
    migrate(connection, "x", [FIRST, SECOND])
    migrate(connection, "x", [FIRST, SECOND])
    assert connection.execute("SELECT * FROM one").fetchall() == [(1, "x")]
    assert (version(connection), connection.execute("PRAGMA application_id").fetchone()) == (2, (APPLICATION_ID,))


def test_a_migration_that_fails_leaves_the_version_before_it(connection: sqlite3.Connection) -> None:
    migrate(connection, "x", [FIRST])
    before = schema(connection)
    with pytest.raises(LogUnavailable, match=r"version 2 \(broken\); .*nowhere.* unchanged, at version 1"):
        migrate(connection, "x", [FIRST, BROKEN])
    assert schema(connection) == before
    assert connection.execute("SELECT a FROM one").fetchall() == [(1,)]
    migrate(connection, "x", [FIRST, SECOND])
    assert version(connection) == 2


async def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await (await Owner.take(store)).append(fact("x"))
    change(tmp_path, "PRAGMA user_version = 99")
    before = (tmp_path / "log.db").read_bytes()
    with pytest.raises(LogTooNew, match=r"version 99.*Upgrade everyword"):
        await SqliteLog(tmp_path / "log.db").open()
    assert (tmp_path / "log.db").read_bytes() == before
    change(tmp_path, f"PRAGMA user_version = {len(load_migrations())}")
    async with opened(tmp_path) as store:
        assert (await store.activate(A)).head == 1


@pytest.mark.parametrize("statement", ["CREATE TABLE theirs (a INTEGER)", "PRAGMA application_id = 7"])
async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path, statement: str) -> None:
    change(tmp_path, statement)
    before = (tmp_path / "log.db").read_bytes()
    with pytest.raises(LogError, match="another program"):
        await SqliteLog(tmp_path / "log.db").open()
    assert (tmp_path / "log.db").read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = b"dear diary, " * 1000
    (tmp_path / "log.db").write_bytes(text)
    with pytest.raises(LogError, match="not a database"):
        await SqliteLog(tmp_path / "log.db").open()
    assert (tmp_path / "log.db").read_bytes() == text


async def test_an_empty_file_is_migrated(tmp_path: Path) -> None:
    (tmp_path / "log.db").touch()
    async with opened(tmp_path) as store:
        assert (await store.activate(A)).epoch == 1
    assert look(tmp_path, "PRAGMA application_id") == [(APPLICATION_ID,)]


def test_a_locked_file_is_not_reported_as_a_foreign_file(connection: sqlite3.Connection, tmp_path: Path) -> None:
    migrate(connection, "x", [FIRST])
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    other = sqlite3.connect(tmp_path / "x.db", timeout=0)
    with pytest.raises(LogUnavailable, match="locked"):
        check_ours(other, "x")
    other.close()
    connection.execute("ROLLBACK")


async def test_wakes_and_messages_of_an_earlier_version_are_still_valid(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    migrate(connection, "x", load_migrations()[:3])
    connection.executescript(
        """
        INSERT INTO agent (key, id, epoch, head, head_id) VALUES (1, 'chat/a', 1, 1, 1), (2, 'chat/b', 1, 0, 0);
        INSERT INTO event (id, agent, seq, at, kind, turn, back, body)
          VALUES (1, 1, 1, 1, 'turn.accepted', 1, 0, x'7b7d');
        INSERT INTO turn (agent, turn, request, kind, generation, node, message_id, status, accepted, accepted_at,
          attempt, chunks, hook_due) VALUES (1, 1, 'r1', 'chat', 0, 2, 'm1', 'running', x'7b7d', 1, 1, 0, 0);
        INSERT INTO message (agent, node, id, role, body, at)
          VALUES (1, 1, 'm1', 'user', CAST('{"id":"m"}' AS BLOB), 1);
        INSERT INTO wake VALUES (1, 0), (2, 50);
        """
    )
    connection.close()
    async with opened(tmp_path) as store:
        assert await store.due(FOREVER) == [(A, 0), (B, 50)]
        owner = await Owner.take(store)
        assert [row.body for row in owner.activation.messages] == [b'{"id":"m"}']
        await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 2)], wake=None)
        assert await store.due(FOREVER) == [(B, 50)]
