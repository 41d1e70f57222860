"""Erase the chunks of managed streams, in every store: only of streams that ended long enough ago, each once."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.events import TurnKind
from everyword.ids import Millis, TurnId
from tests.log.building import A, B, Owner, Store, chunks, drain, ended_row, read_all, seqs
from tests.log.stores import STORES, Stores

RSM: dict[str, Any] = {"kind": TurnKind.RSM}

pytestmark = pytest.mark.parametrize("kind", STORES)


async def count(store: Store, turn: int, agent: Any = A) -> int:
    return len(await store.read_turn(agent, TurnId(turn)))


async def test_only_old_managed_streams_lose_their_chunks_and_each_is_counted_once(stores: Stores) -> None:
    async with stores.opened() as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        await owner.answer(1, 3, ended_at=10, **RSM)
        await other.answer(1, 3, ended_at=10, **RSM)
        await owner.answer(2, 3, ended_at=10)
        await owner.answer(3, 3, ended_at=20, **RSM)
        await owner.answer(4, 3, **RSM)
        assert await store.erase_streams(A, Millis(9)) == 0
        assert await store.erase_streams(A, Millis(10)) == 1
        assert await store.erase_streams(A, Millis(10)) == 0
        assert [await count(store, turn) for turn in (1, 2, 3, 4)] == [0, 3, 3, 3]
        assert await count(store, 1, B) == 3
        assert await store.erase_streams(A, Millis(99)) == 1
        assert [await count(store, turn) for turn in (1, 2, 3, 4)] == [0, 3, 0, 3]
        assert [row.turn for row in await store.turns(A)] == [1, 2, 3, 4]
        assert await store.erase_streams(B, Millis(99)) == 1


async def test_an_unknown_agent_has_nothing_to_erase(stores: Stores) -> None:
    async with stores.opened() as store:
        assert await store.erase_streams(A, Millis(99)) == 0


async def test_one_step_erases_at_most_limit_streams_oldest_first(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await Owner.take(store)
        for turn in range(1, 6):
            await owner.answer(turn, 2, ended_at=turn, **RSM)
        assert await store.erase_streams(A, Millis(9), limit=2) == 2
        assert [await count(store, turn) for turn in range(1, 6)] == [0, 0, 2, 2, 2]
        assert await store.erase_streams(A, Millis(9), limit=9) == 3


async def test_a_log_with_erased_streams_can_be_read_and_appended_to(stores: Stores) -> None:
    """Chunks are deleted in many places, across marks and between events of other agents; every other event stays."""
    async with stores.opened() as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        for turn in range(1, 13):
            await owner.answer(turn, 60, ended_at=turn, **(RSM if turn % 2 else {}))
            await other.answer(turn, 5, ended_at=turn, **RSM)
        before = await read_all(store)
        kept = [each for each in before if each.kind != "chunk" or (each.turn or 0) % 2 == 0]
        while await store.erase_streams(A, Millis(99), limit=4):
            pass
        assert await read_all(store) == kept
        assert await read_all(store, limit=7) == kept
        await drain(store, 99)
        rest = [each for each in kept if each.kind != "chunk"]
        assert await read_all(store) == rest
        await owner.answer(13, 3, ended_at=13, **RSM)
        assert seqs(await read_all(store))[-1] == owner.head
        assert await count(store, 13) == 3
        assert len(await read_all(store, B)) == 12 * 9
        again = await store.activate(A)
        assert again.head == owner.head


async def test_a_stream_in_one_batch_is_erased_like_any_other(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await Owner.take(store)
        await owner.append(*chunks(1, 2), rows=[ended_row(1, 5, **RSM)])
        assert await store.erase_streams(A, Millis(9)) == 1
        assert await store.erase_streams(A, Millis(9)) == 0
        assert await read_all(store) == []
