"""Queries: pages from one snapshot, and damage that affects only one agent."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from everyword.errors import LogCorrupt, LogUnavailable
from everyword.ids import RequestId, Seq, TurnId
from everyword.log.sqlite import leases, pending_events, queries, retention
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import FOREVER, A, B, Owner, chunk, ended_row, fact, message_row, read_all, seqs, turn_row
from tests.log.sqlite.faults import change, look, opened

PAGE = 4096


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


def damage_page_with(path: Path, text: bytes) -> None:
    """Overwrite the page of the file that has `text`."""
    content = bytearray(path.read_bytes())
    start = content.index(text) // PAGE * PAGE
    content[start : start + PAGE] = bytes(PAGE)
    path.write_bytes(content)


async def fill_two_agents(folder: Path) -> None:
    """Write many pages of A, then many of B."""
    async with opened(folder) as store:
        for agent in (A, B):
            owner = await Owner.take(store, agent)
            await owner.append(fact("turn.accepted", 1), rows=[turn_row(1), message_row(1)])
            for index in range(100):
                await owner.append(chunk(1, index, f"{agent}-{index:03}-" + "x" * 300))


async def test_changed_bytes_of_a_body_are_returned_as_they_are(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("x", None, b'{"text":"good bytes"}'), fact("y"))
    overwrite(tmp_path / "log.db", b"good bytes", b"bad\x00\xff\xfeytes")
    async with opened(tmp_path) as store:
        assert [each.body for each in await read_all(store)] == [b'{"text":"bad\x00\xff\xfeytes"}', b"{}"]


async def test_a_damaged_page_affects_only_the_agent_whose_events_it_had(tmp_path: Path) -> None:
    await fill_two_agents(tmp_path)
    damage_page_with(tmp_path / "log.db", b"chat/a-050-")
    async with opened(tmp_path) as store:
        for question in (store.activate(A), store.read(A, Seq(0)), store.read_turn(A, TurnId(1))):
            with pytest.raises(LogCorrupt, match="'chat/a'"):
                await question
        assert [row.node for row in (await store.conversation(A))[1]] == [1]
        owner = await Owner.take(store, B)
        assert (owner.head, len(owner.activation.chunks)) == (101, 100)
        await owner.append(chunk(1, 100))
        assert seqs(await read_all(store, B)) == list(range(1, 103))
        # Events after the damage can still be read, and new events can be written.
        assert seqs(await store.read(A, Seq(95))) == list(range(96, 102))


async def test_a_damaged_page_near_the_end_does_not_prevent_opening_after_a_crash(tmp_path: Path) -> None:
    await fill_two_agents(tmp_path)
    damage_page_with(tmp_path / "log.db", b"chat/b-050-")
    change(tmp_path, "UPDATE store SET scanned = 5")
    change(tmp_path, "UPDATE agent SET head = 0, head_id = 0")
    async with opened(tmp_path) as store:
        assert [(await store.activate(A)).head, len(await read_all(store, A))] == [101, 101]
        assert seqs(await store.read(B, Seq(95))) == list(range(96, 102))
        with pytest.raises(LogCorrupt, match="'chat/b'"):
            await store.activate(B)


async def test_a_file_whose_end_cannot_be_read_is_not_opened(tmp_path: Path) -> None:
    await fill_two_agents(tmp_path)
    damage_page_with(tmp_path / "log.db", b"chat/b-099-")
    with pytest.raises(LogCorrupt, match=r"unable to open .*log\.db"):
        await SqliteLog(tmp_path / "log.db").open()


async def test_events_that_are_not_in_order_are_reported(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(*(fact("x") for _ in range(9)))
        change(tmp_path, "UPDATE event SET back = 3 WHERE seq = 7")
        with pytest.raises(LogCorrupt, match=r"'chat/a'.*not in order"):
            await store.read(A, Seq(0))
        assert seqs(await store.read(A, Seq(7))) == [8, 9]


async def test_a_chain_never_leads_into_the_log_of_another_agent(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        await other.append(fact("secret"))
        await owner.append(fact("one"), fact("two"))
        change(tmp_path, "UPDATE event SET back = 2 WHERE agent = 1 AND seq = 2")
        assert [each.kind for each in await store.read(A, Seq(0))] == ["two"]


async def test_a_row_that_is_not_utf_8_is_reported_with_its_agent(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for agent in (A, B):
            await (await Owner.take(store, agent)).append(fact("x"), rows=[turn_row(1)])
        change(tmp_path, "UPDATE turn SET status = CAST(x'ff' AS TEXT) WHERE agent = 1")
        with pytest.raises(LogCorrupt, match="'chat/a'"):
            await store.find_turn(A, RequestId("r1"))
        with pytest.raises(LogCorrupt, match="'chat/a'"):
            await store.activate(A)
        assert await store.find_turn(B, RequestId("r1")) == turn_row(1)


async def test_a_turn_of_an_unknown_kind_is_left_out_and_the_agent_opens(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await (await Owner.take(store, A)).append(fact("x"), rows=[turn_row(1), turn_row(2)])
        change(tmp_path, "UPDATE turn SET kind = 'nonsense' WHERE turn = 1")
        assert [row.turn for row in (await store.activate(A)).turns] == [2]


async def test_a_query_that_fails_for_another_reason_can_be_repeated(tmp_path: Path) -> None:
    class Stubborn(sqlite3.Connection):
        refusals = 0

        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            if "FROM message" in sql and type(self).refusals:
                type(self).refusals -= 1
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error
            return super().execute(sql, *values)  # type: ignore[arg-type]

    store = SqliteLog(tmp_path / "log.db", factory=Stubborn)
    await store.open()
    await (await Owner.take(store)).append(fact("x"), rows=[message_row(1)])
    Stubborn.refusals = 1
    with pytest.raises(LogUnavailable, match="disk I/O error"):
        (await store.conversation(A))[1]
    assert (await store.conversation(A))[1] == [message_row(1)]
    await store.aclose()


async def test_a_page_is_one_snapshot_during_appends_and_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_events, "ROWS_PER_MARK", 4)
    monkeypatch.setattr(leases, "SAVE_HEADS_EVERY", 5)
    monkeypatch.setattr(retention, "SLICE", 7)
    monkeypatch.setattr(queries, "MARKS_AT_ONCE", 2)
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        is_over = asyncio.Event()

        async def write() -> None:
            for turn in range(1, 40):
                await owner.append(fact("turn.accepted", turn), rows=[turn_row(turn)])
                await owner.append(chunk(turn, 0), chunk(turn, 1))
                await owner.append(chunk(turn, 2), fact("turn.ended", turn), rows=[ended_row(turn, 1)])
            is_over.set()

        async def clean() -> None:
            while not is_over.is_set():
                await store.prune(FOREVER, limit=3)

        async def read() -> int:
            count = 0
            while not is_over.is_set():
                acknowledged = owner.head
                found = await store.read(A, Seq(0), 10_000)
                facts = [0, *(each.seq for each in found if each.kind != "chunk")]
                # Facts are never pruned: each turn has both of its facts, up to the last event that was read.
                assert facts == [seq for seq in range(facts[-1] + 1) if seq % 5 in (1, 0)]
                assert facts[-1] >= acknowledged - 3
                count += 1
            return count

        _, _, count = await asyncio.gather(write(), clean(), read())
        assert count > 3
        assert look(tmp_path, "SELECT count(*) FROM event WHERE kind <> 'chunk'") == [(78,)]


@pytest.mark.parametrize("damage", ["more = 'x'", "more = -1", "more = 1.5", "seq = 'x'", "seq = 0"])
async def test_a_row_with_damaged_numbers_raises_log_corrupt(tmp_path: Path, damage: str) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(*(fact("x") for _ in range(9)))
        change(tmp_path, f"UPDATE event SET {damage} WHERE seq = 5")
        with pytest.raises(LogCorrupt, match="'chat/a'"):
            await store.read(A, Seq(0))
