"""A database whose files are deleted or replaced while it is open takes nothing more, and says why."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from everyword.errors import LogUnavailable
from everyword.ids import Millis, Seq
from everyword.log.sqlite.files import DatabaseFiles
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import A, B, Owner, append_one, chunks, fact, read_all, seqs, turn_row
from tests.log.sqlite.faults import BROKEN, Faults, look, opened

Change = Callable[[Path], None]


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


CHANGES = [
    pytest.param(delete, "was deleted or moved away", id="deleted"),
    pytest.param(move, "was deleted or moved away", id="moved"),
    pytest.param(replace, "was replaced by another file", id="replaced"),
]


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize(("change", "what"), CHANGES)
async def test_nothing_is_written_once_a_file_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Change, what: str, ending: str
) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("one"))
        store.files.check()
        change(tmp_path / f"log.db{ending}")
        with pytest.raises(LogUnavailable, match=f"log.db{ending}' {what} while it was in use"):
            store.files.check()
        assert store.files.lost is not None
        for attempt in (owner.append(fact("lost")), store.activate(B), store.prune(Millis(0))):
            with pytest.raises(LogUnavailable, match=what):
                await attempt
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert what in record.message and "estart the server" in record.message


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_what_waited_to_be_written_is_refused(tmp_path: Path, durability: str) -> None:
    async with opened(tmp_path, durability=durability) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        large = append_one(store, other.batch(fact("large", body=b'"%b"' % (b"x" * 1_000_000))))  # the thread's
        waiting = [
            append_one(store, owner.batch(fact("soon"), rows=[turn_row(1)])),
            append_one(store, owner.batch(fact("too"))),
        ]
        (tmp_path / "log.db").unlink()
        with pytest.raises(LogUnavailable):
            store.files.check()
        for each in waiting:
            with pytest.raises(LogUnavailable, match="deleted or moved away"):
                await each
        await asyncio.gather(large, return_exceptions=True)


async def test_a_file_that_is_put_back_is_not_used_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        move(tmp_path / "log.db")
        with pytest.raises(LogUnavailable):
            store.files.check()
        (tmp_path / "elsewhere").rename(tmp_path / "log.db")
        with pytest.raises(LogUnavailable, match=r"Restore it.* and restart"):
            await owner.append(fact("later"))
    async with opened(tmp_path) as store:
        assert (await store.activate(A)).head == 0


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
async def test_nothing_is_lost_with_the_write_ahead_log(tmp_path: Path, ending: str) -> None:
    """Its content is checkpointed into the file by the connections that have it open."""
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(*chunks(1, 50))
        assert len(await store.read(A, Seq(0))) == 50
        (tmp_path / f"log.db{ending}").unlink()
        with pytest.raises(LogUnavailable, match=r"Restart the server$"):
            store.files.check()
    async with opened(tmp_path) as store:
        assert len(await read_all(store)) == 50
        assert look(tmp_path, "PRAGMA integrity_check") == [("ok",)]


async def test_no_write_ahead_log_is_left_to_a_file_that_is_restored(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("one"))
    shutil.copy(tmp_path / "log.db", tmp_path / "backup")
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(*chunks(1, 50))
        os.replace(tmp_path / "backup", tmp_path / "log.db")
        with pytest.raises(LogUnavailable):
            store.files.check()
    wal = tmp_path / "log.db-wal"
    assert not wal.exists() or wal.stat().st_size == 0
    async with opened(tmp_path) as store:
        assert seqs(await read_all(store)) == [1]


async def test_no_connection_is_opened_to_another_file(tmp_path: Path) -> None:
    """Neither a reader's first one nor the writer's next one after an error."""
    faults = Faults()
    async with opened(tmp_path, faults, durability="power") as store:
        owner = await Owner.take(store)
        replace(tmp_path / "log.db")
        faults.failing["BEGIN"] = BROKEN
        with pytest.raises(LogUnavailable):
            await owner.append(fact("one"))
        faults.failing.clear()
        with pytest.raises(LogUnavailable, match="replaced"):
            await owner.append(fact("two"))
        assert faults.opened == 1
        with pytest.raises(LogUnavailable, match="replaced"):
            await store.read(A, Seq(0))


async def test_a_connection_that_is_opened_again_is_no_change(tmp_path: Path) -> None:
    """SQLite itself removes what is beside the file with the last connection."""
    faults = Faults()
    async with opened(tmp_path, faults, durability="power") as store:
        owner = await Owner.take(store)
        faults.failing["BEGIN"] = BROKEN
        with pytest.raises(LogUnavailable):
            await owner.append(fact("one"))
        store.files.check()
        faults.failing.clear()
        await owner.append(fact("two"))
        store.files.check()
        assert (faults.opened, store.files.lost) == (2, None)


async def test_a_disk_that_cannot_be_asked_is_no_change(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 200)
    folder.mkdir()
    files = DatabaseFiles(str(folder / "log.db"))
    (folder / "log.db").touch()
    files.note()
    files.check()
    files.path = f"{folder}/{'y' * 300}"  # too long a name: neither there nor not there
    files.check()
    assert files.lost is None


async def test_files_that_were_never_opened_are_not_missed(tmp_path: Path) -> None:
    files = SqliteLog(tmp_path / "log.db").files
    files.check()
    assert files.lost is None
