"""The writer groups waiting batches, fails only the batches at fault, and survives all errors of the disk."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everyword.errors import Fenced, LogUnavailable, UsageError
from everyword.ids import AgentId, Millis, Seq
from everyword.log.base import Batch
from everyword.log.sqlite import retention
from everyword.log.sqlite.store import SqliteLog
from everyword.log.sqlite.write_connection import WriteConnection
from tests.log.building import (
    FOREVER,
    A,
    Owner,
    append_one,
    chunk,
    drain,
    ended_row,
    fact,
    read_all,
    seqs,
    turn_row,
)
from tests.log.sqlite.faults import BROKEN, DISK_FULL, Faults, look, opened
from tests.timeouts import PATIENCE


async def owners_of(store: SqliteLog, count: int) -> list[Owner]:
    return [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(count)]


async def together(store: SqliteLog, faults: Faults, batches: list[Batch]) -> list[Any]:
    """Append batches so that they wait together: the writer is held until all of them are queued."""
    faults.executed.clear()
    faults.gate = threading.Event()
    first = asyncio.ensure_future(store.activate(AgentId("chat/gate")))
    await asyncio.sleep(0)
    appends = store.append(batches)
    await asyncio.sleep(0)
    faults.gate.set()
    results = await asyncio.gather(*appends, return_exceptions=True)
    await asyncio.gather(first, return_exceptions=True)
    return results


async def test_what_waits_is_one_transaction_and_one_wake_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults()
    async with opened(tmp_path, faults, durability="power") as store:
        owners = await owners_of(store, 60)
        loop, calls = asyncio.get_running_loop(), []
        real = loop.call_soon_threadsafe

        def count(call: Callable[..., object], *args: object) -> object:
            calls.append(call)
            return real(call, *args)

        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        assert await together(store, faults, [owner.batch(chunk(1, 0)) for owner in owners]) == [None] * 60
        # The gate's activation may have gone ahead alone; the appends never part.
        assert faults.executed.count("append_event") == 1
        assert faults.executed.count("COMMIT") <= 2
        settled = [call for call in calls if getattr(call, "__name__", "") == "_written_by_thread"]
        assert len(settled) == faults.executed.count("COMMIT")


async def test_a_batch_of_chunks_costs_one_insert_and_nothing_else(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)], wake=None)
        faults.executed.clear()
        await owner.append(chunk(1, 0), chunk(1, 1), wake=None)
        assert faults.executed == ["BEGIN", "append_event", "COMMIT"]


async def test_a_batch_that_cannot_be_bound_fails_alone(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = await owners_of(store, 16)
        batches = [owner.batch(chunk(1, 0), at=2**70 if n == 5 else 1) for n, owner in enumerate(owners)]
        results = await together(store, faults, batches)
        assert [n for n, result in enumerate(results) if result is not None] == [5]
        assert isinstance(results[5], LogUnavailable)
        assert isinstance(results[5].__cause__, OverflowError)
        assert "chat/5" in str(results[5])
        assert [len(await read_all(store, owner.agent)) for owner in owners] == [0 if n == 5 else 1 for n in range(16)]
        # Halving, not one by one: the good ones stay together.
        assert faults.executed.count("COMMIT") < 16


async def test_a_batch_that_breaks_a_rule_fails_alone_in_its_group(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = await owners_of(store, 8)
        for owner in owners:
            await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 1)])
        bad = owners[3].batch(fact("x", 1), rows=[ended_row(1, 2)])
        stale = owners[6].batch(fact("x"), epoch=0)
        batches = [owner.batch(chunk(1, 0)) for owner in owners]
        batches[3], batches[6] = bad, stale
        results = await together(store, faults, batches)
        assert [type(result) for result in results if result is not None] == [LogUnavailable, Fenced]
        assert isinstance(results[3].__cause__, sqlite3.IntegrityError)
        lengths = [len(await read_all(store, owner.agent)) for owner in owners]
        assert lengths == [2, 2, 2, 1, 2, 2, 1, 2]


async def test_a_failed_commit_fails_every_batch_and_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = await owners_of(store, 5)
        await owners[0].append(chunk(1, 0))
        faults.failing["COMMIT"] = BROKEN
        stale = owners[4].batch(fact("x"), epoch=99)
        batches = [*(owner.batch(chunk(1, 1)) for owner in owners[:4]), stale]
        results = await together(store, faults, batches)
        assert [type(result) for result in results] == [*[LogUnavailable] * 4, Fenced]
        assert all(result.__cause__ is BROKEN for result in results[:4])
        assert look(tmp_path, "SELECT count(*) FROM event") == [(1,)]
        faults.failing.clear()
        for owner in owners:
            await owner.append(chunk(1, 1))
        assert [seqs(await read_all(store, owner.agent)) for owner in owners] == [[1, 2], [1], [1], [1], [1]]


async def test_after_a_failed_commit_something_else_is_committed_over_it(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults, durability="power") as store:
        owner = await Owner.take(store)
        failures = [BROKEN]

        def fail_once(name: str) -> None:
            if name == "COMMIT" and failures:
                raise failures.pop()

        faults.executed.clear()
        faults.hook = fail_once
        with pytest.raises(LogUnavailable):
            await owner.append(chunk(1, 0))
        assert faults.executed == [
            "BEGIN",
            "append_event",
            "COMMIT",
            "ROLLBACK",
            "BEGIN",
            "overwrite_failed_commit",
            "COMMIT",
        ]
        # What a crash right now would leave behind:
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("log.db", "log.db-wal"):
            shutil.copy(tmp_path / name, copy / name)
        assert look(copy, "SELECT (SELECT count(*) FROM event), sealed FROM store") == [(0, 1)]


@pytest.mark.parametrize(
    "failing", [("BEGIN",), ("COMMIT", "overwrite_failed_commit"), ("append_event", "ROLLBACK"), ("COMMIT", "ROLLBACK")]
)
async def test_the_writer_outlives_every_failure_and_goes_on(tmp_path: Path, failing: tuple[str, ...]) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        await owner.append(chunk(1, 0))
        for _ in range(3):
            faults.failing.update(dict.fromkeys(failing, BROKEN))
            with pytest.raises(LogUnavailable, match="Nothing of it was written"):
                await owner.append(chunk(1, 1), rows=[turn_row(1)])
            faults.failing.clear()
            assert seqs(await read_all(store)) == list(range(1, owner.head + 1))
            await owner.append(chunk(1, 1), rows=[turn_row(1)])
        assert faults.opened > 1
        assert len(await store.turns(A)) == 1
    assert look(tmp_path, "SELECT count(*) FROM event") == [(4,)]


async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner, other = await Owner.take(store), await Owner.take(store, AgentId("chat/other"))
        await other.append(chunk(1, 0))
        ((used,),) = look(tmp_path, "PRAGMA page_count")
        faults.pages = used + 40

        async def fill() -> None:
            for index in range(100):
                await owner.append(chunk(1, index, "x" * 4000), rows=[turn_row(1)])

        with pytest.raises(LogUnavailable, match=r"full.*Free some space") as caught:
            await fill()
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert 10 < owner.head < 60
        assert (await Owner.take(store)).head == owner.head
        owner.epoch = type(owner.epoch)(owner.epoch + 1)
        faults.pages = None
        await owner.append(chunk(1, 99, "x" * 4000))
        assert seqs(await read_all(store)) == list(range(1, owner.head + 1))
        assert look(tmp_path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_batch_too_large_for_the_disk_does_not_keep_small_ones_out(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = await owners_of(store, 8)
        ((used,),) = look(tmp_path, "PRAGMA page_count")
        faults.pages = used + 30
        batches = [owner.batch(chunk(1, 0, "x" * (10**6 if n == 2 else 10))) for n, owner in enumerate(owners)]
        results = await together(store, faults, batches)
        assert [n for n, result in enumerate(results) if result is not None] == [2]
        assert isinstance(results[2], LogUnavailable)


async def test_a_disk_that_fills_up_during_the_commit_is_no_different(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        faults.failing["COMMIT"] = DISK_FULL
        with pytest.raises(LogUnavailable, match="full"):
            await owner.append(fact("x"), rows=[turn_row(1)])
        faults.failing.clear()
        assert (await store.turns(A), await store.read(A, Seq(0))) == ([], [])
        await owner.append(fact("x"), rows=[turn_row(1)])
        assert (await store.turns(A), seqs(await read_all(store))) == ([turn_row(1)], [1])


async def test_an_activation_that_fails_gives_no_epoch_away(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        faults.failing["COMMIT"] = BROKEN
        with pytest.raises(LogUnavailable):
            await store.activate(A)
        faults.failing.clear()
        await owner.append(fact("still mine"))
        assert (await store.activate(A)).epoch == 2


async def test_a_caller_that_was_cancelled_does_not_disturb_the_others(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = await owners_of(store, 3)
        faults.gate = threading.Event()
        tasks = [asyncio.ensure_future(append_one(store, owner.batch(chunk(1, 0)))) for owner in owners]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        faults.gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), asyncio.CancelledError, type(None)]
        assert [len(await read_all(store, owner.agent)) for owner in owners] == [1, 1, 1]


async def test_retention_waits_until_no_append_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE", 10)
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        await owner.answer(1, 50, ended_at=1)
        faults.executed.clear()
        faults.gate = threading.Event()
        pruning = asyncio.ensure_future(store.prune(FOREVER))
        appends = [
            asyncio.ensure_future(append_one(store, owner.batch(fact("x"), first=owner.head + n))) for n in (1, 2)
        ]
        await asyncio.sleep(0)
        faults.gate.set()
        await asyncio.gather(*appends)
        assert (await pruning).chunks == 50
        steps = [name for name in faults.executed if name in ("append_event", "doom")]
        # The writer may have taken the sweep up before the appends were there: one slice, no more.
        assert "append_event" in steps[:2]
        assert steps.count("doom") >= 5


async def test_an_append_that_comes_meanwhile_waits_for_one_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SLICE", 10)
    faults = Faults()
    async with opened(tmp_path, faults, durability="power") as store:
        owner = await Owner.take(store)
        await owner.answer(1, 100, ended_at=1)
        loop = asyncio.get_running_loop()
        appends: list[asyncio.Future[None]] = []

        def append(queued: threading.Event) -> None:
            appends.append(
                asyncio.ensure_future(append_one(store, owner.batch(fact("x"), first=owner.head + len(appends) + 1)))
            )
            loop.call_soon(loop.call_soon, queued.set)

        def interrupt(name: str) -> None:
            """Bring in an append during the first slice, and two more while an append is being written."""
            if name == ("append_event" if appends else "doom") and len(appends) < 3:
                queued = threading.Event()
                loop.call_soon_threadsafe(append, queued)
                queued.wait(20)

        faults.executed.clear()
        faults.hook = interrupt
        assert await drain(store, FOREVER) == 100
        await asyncio.gather(*appends)
        steps = "".join({"append_event": "a", "doom": "d"}.get(name, "") for name in faults.executed)
        assert re.match("da{1,3}d?a*d", steps), steps
        assert steps.count("d", 0, steps.rindex("a")) <= 2, "an append waited for more than one slice"


@pytest.mark.parametrize("failing", ["BEGIN", "doom", "remove_events", "COMMIT"])
async def test_retention_that_fails_says_so_and_can_be_tried_again(tmp_path: Path, failing: str) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        await owner.answer(1, 20, ended_at=1)
        before = await read_all(store)
        faults.failing[failing] = BROKEN
        with pytest.raises(LogUnavailable):
            await store.prune(FOREVER)
        faults.failing.clear()
        assert await read_all(store) == before
        assert await drain(store, FOREVER) == 20
        await owner.append(fact("on"))
        assert [each.kind for each in await read_all(store)][-1] == "on"


async def test_a_sweep_that_waits_is_refused_at_the_close(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        faults.gate = threading.Event()
        first = asyncio.ensure_future(store.activate(A))
        await asyncio.sleep(0)
        pruning = asyncio.ensure_future(store.prune(FOREVER))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.aclose())
        await asyncio.sleep(0)
        faults.gate.set()
        await closing
        assert isinstance((await asyncio.gather(pruning, return_exceptions=True))[0], LogUnavailable)
        await asyncio.gather(first, return_exceptions=True)
        assert first.done()


async def test_opening_a_file_that_cannot_be_opened_raises(tmp_path: Path) -> None:
    store = SqliteLog(tmp_path / "missing" / "log.db")
    with pytest.raises(LogUnavailable, match="folder must exist"):
        await store.open()
    await store.aclose()
    with pytest.raises(LogUnavailable):
        await store.activate(A)
    with pytest.raises(UsageError):
        await store.open()


async def test_opening_can_be_cancelled_while_it_waits_for_the_lock(tmp_path: Path) -> None:
    async with opened(tmp_path):
        waiting = asyncio.ensure_future(SqliteLog(tmp_path / "log.db").open())
        for _ in range(3):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with opened(tmp_path, lock_timeout=0) as store:
        assert (await store.activate(A)).epoch == 1


async def test_closing_goes_on_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("x"))
        closing = asyncio.ensure_future(store.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await store.aclose()
        async with opened(tmp_path, lock_timeout=0) as again:
            assert seqs(await read_all(again)) == [1]


@pytest.mark.parametrize("place", ["sweep", "commit"])
async def test_a_thread_that_breaks_leaves_no_caller_waiting_and_releases_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a mistake of ours")

    store = SqliteLog(tmp_path / "log.db", durability="power")
    await store.open()
    owner = await Owner.take(store)
    monkeypatch.setattr(WriteConnection, place, broken)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(LogUnavailable):
            await (store.prune(Millis(0)) if place == "sweep" else owner.append(fact("x")))
        with pytest.raises(LogUnavailable):
            await owner.append(fact("later"))
        await store.aclose()
    monkeypatch.undo()
    async with opened(tmp_path) as again:
        assert (await again.activate(A)).head == 0
