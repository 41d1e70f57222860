"""The SQLite store passes the contract tests, with both durabilities."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType

import pytest

from everyword.errors import LogLocked, UsageError
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import A, Owner, fact
from tests.log.contract import LogContract


class TestSqliteLog(LogContract):
    kind = "sqlite"


class TestSqliteLogForPowerCuts(LogContract):
    kind = "sqlite"
    options = MappingProxyType({"durability": "power"})


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_sqlite_in_memory_raises_an_error_that_names_memory_log(path: str) -> None:
    with pytest.raises(UsageError, match="MemoryLog"):
        SqliteLog(path)


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'process' or 'power'"):
        SqliteLog(tmp_path / "log.db", durability="none")  # type: ignore[arg-type]


async def test_a_link_to_the_file_leads_to_the_same_lock(tmp_path: Path) -> None:
    os.symlink(tmp_path / "log.db", tmp_path / "link.db")
    store = SqliteLog(tmp_path / "log.db")
    await store.open()
    with pytest.raises(LogLocked):
        await SqliteLog(tmp_path / "link.db", lock_timeout=0).open()
    await store.aclose()


async def test_closing_leaves_one_file_and_its_lock(tmp_path: Path) -> None:
    store = SqliteLog(tmp_path / "log.db")
    await store.open()
    owner = await Owner.take(store, A)
    await owner.append(fact("x"))
    assert (tmp_path / "log.db-wal").exists()
    await store.aclose()
    assert sorted(os.listdir(tmp_path)) == ["log.db", "log.db.lock"]
