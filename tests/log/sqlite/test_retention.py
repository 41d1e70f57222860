"""Retention sweeps from the oldest arrival on, keeps marks correct, and returns to events that it had to keep."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from everyword.events import TurnKind
from everyword.ids import Millis, TurnId
from everyword.log.sqlite import pending_events, retention
from tests.log.building import (
    FOREVER,
    A,
    B,
    Owner,
    append_one,
    chunk,
    chunks,
    drain,
    ended_row,
    fact,
    message_row,
    read_all,
    seqs,
    state,
    turn_row,
)
from tests.log.sqlite.faults import Faults, change, hold_writer, look, opened

LOST_MARKS = """
  SELECT * FROM mark m
  WHERE NOT EXISTS (SELECT 1 FROM event e WHERE (e.id, e.agent, e.seq) = (m.id, m.agent, m.seq))
"""
UNREACHABLE = """
  SELECT e.agent, e.seq FROM event e
  WHERE NOT EXISTS (SELECT 1 FROM mark m WHERE (m.agent, m.seq) = (e.agent, e.seq))
    AND NOT EXISTS (SELECT 1 FROM event n WHERE (n.agent, n.seq, n.id - n.back) = (e.agent, e.seq + 1, e.id))
    AND e.id <> (SELECT max(l.id) FROM event l WHERE l.agent = e.agent)
"""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE", 16)
    monkeypatch.setattr(pending_events, "ROWS_PER_MARK", 8)


@pytest.mark.parametrize("limit", [1, 7, 16, 1000])
async def test_every_event_that_stays_can_still_be_reached(tmp_path: Path, limit: int) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        for turn in range(1, 6):
            for each, is_rsm in ((owner, turn == 2), (other, turn == 4)):
                await each.answer(turn, 11, ended_at=turn, kind=TurnKind.RSM if is_rsm else TurnKind.CHAT)
        assert await drain(store, 5, limit=limit) == 6 * 11
        assert look(tmp_path, LOST_MARKS) == look(tmp_path, UNREACHABLE) == []
        for agent, kept in ((A, (2, 5)), (B, (4, 5))):
            found = await read_all(store, agent, limit=3)
            assert [each.turn for each in found if each.kind == "chunk"] == [turn for turn in kept for _ in range(11)]
            assert len(found) == 5 * 4 + 2 * 11


async def test_a_turn_that_ends_late_is_found_by_a_later_sweep(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        await owner.answer(1, 5)
        for turn in range(1, 9):
            await other.answer(turn, 5, ended_at=turn)
        assert await drain(store, 9) == 8 * 5
        await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 20)], at=20)
        assert await drain(store, 20) == 0
        assert await drain(store, 21) == 5
        assert look(tmp_path, LOST_MARKS) == look(tmp_path, UNREACHABLE) == []


async def test_a_sweep_with_a_moving_time_limit_misses_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for turn in range(1, 9):
            await owner.answer(turn, 6, ended_at=9 - turn if turn < 5 else turn)
        total = 0
        for before in range(1, 9):  # `before` moves with each step, like the real clock
            total += (await store.prune(Millis(before), limit=4)).chunks
        total += await drain(store, 9, limit=4)
        assert total == 8 * 6
        assert look(tmp_path, LOST_MARKS) == look(tmp_path, UNREACHABLE) == []


async def test_a_new_process_continues_where_the_last_sweep_ended(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for turn in range(1, 11):
            await owner.answer(turn, 6, ended_at=turn)
        assert await drain(store, 11) == 60
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        assert await drain(store, FOREVER) == 0
        assert faults.executed.count("doom") == 0


async def test_a_sweep_stops_at_events_that_are_too_new(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        await owner.answer(1, 4, ended_at=1)
        for n in range(200):
            await owner.append(fact("young"), at=100 + n)
        faults.executed.clear()
        assert await drain(store, 50) == 4
        assert faults.executed.count("doom") <= 2


async def test_chunks_without_a_turn_are_kept_and_do_not_stop_the_sweep(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(chunk(77, 0), chunk(77, 1))
        await owner.answer(1, 4, ended_at=1)
        assert await drain(store, 5) == 4
        assert [each.turn for each in await read_all(store) if each.kind == "chunk"] == [77, 77]
        ((pruned, last),) = look(tmp_path, "SELECT pruned, (SELECT max(id) FROM event) FROM store")
        assert pruned == last


async def test_freed_pages_are_reused(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        sizes = []
        for turn in range(1, 7):
            await owner.append(fact("turn.accepted", turn), rows=[turn_row(turn)])
            for index in range(10):
                await owner.append(*(chunk(turn, 10 * index + n, "x" * 500) for n in range(10)))
            await owner.append(fact("turn.ended", turn), rows=[ended_row(turn, turn)], at=turn)
            assert await drain(store, turn + 1) == 100
            sizes += look(tmp_path, "PRAGMA page_count")
        assert sizes[-1] <= (sizes[0][0] + 3,)


async def test_events_written_after_a_sweep_are_found_by_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for turn in range(1, 6):
            await owner.answer(turn, 3, ended_at=1)
            assert await drain(store, FOREVER) == 3
            assert await store.read_turn(A, TurnId(turn)) == []
        assert seqs(await read_all(store))[-1] == owner.head


async def test_a_stream_is_erased_though_its_end_is_in_the_same_transaction(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1, kind=TurnKind.RSM)])
        end = owner.batch(*chunks(1, 3), fact("turn.ended", 1), rows=[ended_row(1, 5, kind=TurnKind.RSM)])
        release = await hold_writer(store, faults)
        both = append_one(store, end), asyncio.ensure_future(store.erase_streams(A, Millis(9)))
        await asyncio.sleep(0)
        release()
        assert await asyncio.gather(*both) == [None, 1]
        assert seqs(await read_all(store)) == [1, 5]


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_superseded_states_are_deleted_and_all_other_events_stay_reachable(tmp_path: Path, limit: int) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        for turn in range(1, 9):
            await owner.append(state(turn), at=turn)
            await owner.answer(turn, 5, ended_at=turn)
            await other.append(fact("other"), state(turn), state(-turn), at=turn)
        before = await read_all(store), await read_all(store, B)
        assert await drain(store, 7, limit=limit) == 6 * 5 + 5 + 11
        assert look(tmp_path, LOST_MARKS) == look(tmp_path, UNREACHABLE) == []
        assert look(tmp_path, "SELECT states_gone FROM agent ORDER BY key") == [(5,), (11,)]
        for agent, all_of_it in zip((A, B), before, strict=True):
            left = await read_all(store, agent, limit=3)
            states = [each for each in all_of_it if each.kind == "state.set"]
            shown = [each for each in states if each.at >= 7]
            shown.insert(0, [each for each in states if each.at < 7][-1])
            assert [each for each in left if each.kind == "state.set"] == shown
            others = [each for each in all_of_it if each.kind not in ("state.set", "chunk")]
            assert [each for each in left if each.kind not in ("state.set", "chunk")] == others


async def test_the_last_state_of_an_agent_does_not_stop_the_sweep(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        await owner.append(state("for years"), at=1)
        for turn in range(1, 9):
            await other.answer(turn, 5, ended_at=turn)
        assert await drain(store, 100) == 8 * 5
        faults.executed.clear()
        assert await drain(store, 101) == 0
        assert faults.executed.count("doom") == 0
        ((pruned, last),) = look(tmp_path, "SELECT pruned, (SELECT max(id) FROM event) FROM store")
        assert pruned == last


async def test_states_written_by_version_4_are_pruned_too(tmp_path: Path) -> None:
    """A file of version 4 in which sweeps have passed the states."""
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for value in range(40):
            await owner.append(state(value), at=1 + value)
    for statement in (
        "UPDATE store SET pruned = (SELECT max(id) FROM event)",
        "ALTER TABLE agent DROP COLUMN state_id",
        "ALTER TABLE agent DROP COLUMN states_gone",
        "DROP TABLE conversation",
        "DROP TABLE approval",
        "DROP TABLE message_text",
        "DROP INDEX kept_by_share",
        "DROP TABLE erasure",
        "PRAGMA user_version = 4",
    ):
        change(tmp_path, statement)
    async with opened(tmp_path) as store:
        assert await drain(store, FOREVER, limit=7) == 39
        assert [each.body for each in await read_all(store)] == [state(39).body]


async def test_a_state_that_has_a_messages_body_stays(tmp_path: Path) -> None:
    """Up to version 4 a body could be stored as a reference to any event of its batch but a chunk."""
    body = b'{"id":"m1","text":"%b"}' % (b"said " * 300)
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for value in ("x", "said " * 300, "y", "z"):
            await owner.append(state({"id": "m1", "text": value}), at=1)
        await owner.append(rows=[message_row(1, body=body)])
        start = state({"id": "m1", "text": "said " * 300}).body.index(body)
        change(tmp_path, f"UPDATE message SET body = NULL, event = 2, start = {start}, size = {len(body)}")
        assert await drain(store, FOREVER) == 2
        assert await drain(store, FOREVER) == 0
        assert seqs(await read_all(store)) == [2, 4]
        assert [row.body for row in (await store.conversation(A))[1]] == [body]


async def test_no_body_is_stored_as_a_place_in_a_state(tmp_path: Path) -> None:
    body = b'{"id":"m1","text":"%b"}' % (b"said " * 300)
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(state({"id": "m1", "text": "said " * 300}), rows=[message_row(1, body=body)], at=1)
        await owner.append(state("another"), at=2)
        assert await drain(store, FOREVER) == 1
        assert [row.body for row in (await store.conversation(A))[1]] == [body]


async def test_a_slice_deletes_a_limited_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that arrives meanwhile waits for one slice, and states may be large."""
    monkeypatch.setattr(retention, "MAX_BYTES", 25_000)
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        for n in range(13):
            await owner.append(state(f"{n}" + "x" * 10_000), at=1)
        faults.executed.clear()
        assert await drain(store, FOREVER) == 12
        assert faults.executed.count("remove_events") == 4, "three go at a time"
        assert seqs(await read_all(store)) == [13]
