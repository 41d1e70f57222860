"""Leases, heads and marks: the memory of the writer is a cache of the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from everyword.errors import Fenced, LogUnavailable
from everyword.ids import AgentId
from everyword.log.sqlite import leases
from everyword.log.sqlite.lock import FileLock
from tests.log.building import A, B, Owner, chunk, ended_row, fact, read_all, seqs, turn_row
from tests.log.sqlite.faults import Faults, look, opened


@pytest.fixture
def no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open two stores on one file, as on a disk whose locks do not work."""
    monkeypatch.setattr(FileLock, "acquire", lambda *_: None)


@pytest.mark.usefixtures("no_lock")
async def test_an_owner_in_another_process_is_fenced_without_any_lock(tmp_path: Path) -> None:
    async with opened(tmp_path) as here, opened(tmp_path) as there:
        old = await Owner.take(here)
        await old.append(fact("one"))
        new = await Owner.take(there)
        assert (new.epoch, new.head) == (2, 1)
        with pytest.raises(Fenced):
            await old.append(fact("two"))
        await new.append(fact("two"))
        again = await Owner.take(here)
        assert (again.epoch, again.head) == (3, 2)
        with pytest.raises(Fenced):
            await new.append(fact("three"))
        await again.append(fact("three"))
        assert [each.kind for each in await read_all(here)] == ["one", "two", "three"]


@pytest.mark.usefixtures("no_lock")
async def test_two_processes_never_use_the_same_arrival(tmp_path: Path) -> None:
    async with opened(tmp_path) as here, opened(tmp_path) as there:
        mine, theirs = await Owner.take(here, A), await Owner.take(there, B)
        for _ in range(5):
            await mine.append(fact("x"))
            await theirs.append(fact("y"), fact("y"))
        assert (seqs(await read_all(here, A)), seqs(await read_all(there, B))) == (
            list(range(1, 6)),
            list(range(1, 11)),
        )
        assert look(tmp_path, "SELECT count(*), max(id) FROM event") == [(15, 15)]


async def test_opening_after_a_crash_scans_a_limited_number_of_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SAVE_HEADS_EVERY", 50)
    async with opened(tmp_path) as store:
        owners = [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(4)]
        for index in range(60):
            for owner in owners[: 4 if index < 30 else 1]:
                await owner.append(chunk(1, index))
            ((scanned, last),) = look(tmp_path, "SELECT scanned, (SELECT max(id) FROM event) FROM store")
            assert last - scanned <= 50
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("log.db", "log.db-wal"):
            shutil.copy(tmp_path / name, copy / name)
    async with opened(copy) as store:
        assert [(await Owner.take(store, owner.agent)).head for owner in owners] == [60, 30, 30, 30]


async def test_opening_after_a_clean_close_scans_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for index in range(9):
            await owner.append(chunk(1, index))
    assert look(tmp_path, "SELECT scanned, (SELECT head FROM agent) FROM store") == [(9, 9)]


async def test_forgotten_leases_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "SAVE_HEADS_EVERY", 3)
    monkeypatch.setattr(leases, "LEASES_KEPT", 2)
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(5)]
        faults.executed.clear()
        for index in range(6):
            for owner in owners:
                await owner.append(chunk(1, index))
        assert faults.executed.count("lease") > 5
        for owner in owners:
            assert seqs(await read_all(store, owner.agent)) == list(range(1, 7))
            with pytest.raises(Fenced):
                await owner.append(chunk(1, 9), epoch=0)
            with pytest.raises(LogUnavailable):
                await owner.append(chunk(1, 9), first=6)


async def test_one_event_in_256_is_marked(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        for n in range(11):
            await owner.append(*(fact("x") for _ in range(100)))
            await other.append(chunk(1, n))
        marks = "SELECT m.agent, m.seq FROM mark m JOIN event e ON (e.id, e.agent, e.seq) = (m.id, m.agent, m.seq)"
        assert look(tmp_path, marks) == [(1, 256), (1, 512), (1, 768), (1, 1024)]


async def test_a_turn_that_waited_is_read_from_its_first_chunk(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)])
        await owner.append(fact("turn.accepted", 2), rows=[turn_row(2, "accepted", attempt=0)])
        for index in range(20):
            await owner.append(chunk(1, index))
        await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 2)])
        await owner.append(fact("attempt.started", 2), rows=[turn_row(2)])
        await owner.append(chunk(2, 0))
        await owner.append(fact("attempt.started", 2), rows=[turn_row(2, attempt=2)])
        await owner.append(chunk(2, 1), fact("turn.ended", 2), rows=[ended_row(2, 3)])
        await owner.append(fact("hook.done", 2), rows=[ended_row(2, 3, hook_due=True)])
        spans = look(tmp_path, "SELECT first_seq, first_id, last_seq, last_id FROM turn ORDER BY turn")
        assert spans == [(1, 1, 23, 23), (24, 24, 28, 28)]


async def test_a_failed_batch_leaves_nothing_in_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 1)])
        for _ in range(3):
            with pytest.raises(LogUnavailable):
                await owner.append(*(chunk(1, n) for n in range(300)), rows=[turn_row(2), ended_row(1, 2)], wake=None)
            with pytest.raises(LogUnavailable):
                await owner.append(*(chunk(1, n) for n in range(300)), at=2**70)
        await owner.append(fact("next"), rows=[turn_row(2)])
        assert seqs(await read_all(store)) == [1, 2]
        assert look(tmp_path, "SELECT (SELECT max(id) FROM event), (SELECT count(*) FROM mark)") == [(2, 0)]
