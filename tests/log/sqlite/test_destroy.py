"""Destroying an agent in SQLite's file: it stays gone, all of it or nothing, and its place is not used again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from everyword.errors import LogUnavailable
from everyword.ids import AgentId
from everyword.log.sqlite.store import SqliteLog
from everyword.log.sqlite.transaction import Transaction
from tests.log.building import A, B, Owner, chunk, drain, read_all
from tests.log.sqlite.faults import opened
from tests.log.test_destroy import CHILD, NOTHING, everything, lived


@pytest.mark.parametrize("clean", [True, False])
async def test_it_stays_gone_when_the_file_is_opened_again(tmp_path: Path, clean: bool) -> None:
    store = SqliteLog(tmp_path / "log.db")
    await store.open()
    other = await lived(store, B)
    owner = await lived(store, A)
    await store.destroy(A, owner.epoch)
    file = tmp_path / "log.db"
    if not clean:  # what a killed process leaves: the file and its write-ahead log as they are now
        for suffix in ("", "-wal"):
            (tmp_path / f"killed.db{suffix}").write_bytes((tmp_path / f"log.db{suffix}").read_bytes())
        file = tmp_path / "killed.db"
    await store.aclose()
    again = SqliteLog(file)
    await again.open()
    assert await everything(again, A) == NOTHING
    new = await Owner.take(again, A)
    assert (new.head, new.epoch > owner.epoch) == (0, True)
    await new.answer(1, 3)
    assert len(await read_all(again, A)) == 5
    assert len(await read_all(again, B)) == other.head
    with closing(sqlite3.connect(file)) as raw:
        assert raw.execute("SELECT count(*) FROM event").fetchone()[0] == other.head + 5
    await again.aclose()


async def test_a_destruction_that_fails_halfway_destroys_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as store:
        owner = await lived(store, A)
        await lived(store, CHILD)
        before = [await everything(store, agent) for agent in (A, CHILD)]
        erase = Transaction._erase

        def fail(self: Transaction, agent: AgentId) -> None:
            erase(self, agent)
            if agent == CHILD:
                raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(Transaction, "_erase", fail)
        with pytest.raises(LogUnavailable):
            await store.destroy(A, owner.epoch)
        monkeypatch.undo()
        assert [await everything(store, agent) for agent in (A, CHILD)] == before
        await owner.append(chunk(2, 3))
        await store.destroy(A, owner.epoch)
        assert await everything(store, CHILD) == NOTHING


async def test_arrivals_are_never_given_twice(tmp_path: Path) -> None:
    """Retention has been where the deleted events were; what comes next must not hide there, not even after a kill."""
    store = SqliteLog(tmp_path / "log.db")
    await store.open()
    kept, gone = await Owner.take(store, B), await Owner.take(store, A)
    await kept.answer(1, 5, ended_at=5)
    await gone.answer(1, 50, ended_at=5)
    await drain(store, 6)
    await store.destroy(A, gone.epoch)
    for suffix in ("", "-wal"):
        (tmp_path / f"killed.db{suffix}").write_bytes((tmp_path / f"log.db{suffix}").read_bytes())
    await store.aclose()
    again = SqliteLog(tmp_path / "killed.db")
    await again.open()
    kept = await Owner.take(again, B)
    await kept.answer(2, 30, ended_at=7)
    assert await drain(again, 8) == 30
    await again.aclose()
