"""Retention of superseded states: the part of `LogContract` about states."""

from __future__ import annotations

from pathlib import Path

from everyword.ids import Millis
from everyword.log.base import Pruned
from tests.log.building import FOREVER, A, B, Owner, drain, fact, read_all, seqs, state
from tests.log.stores import StoreTests


class StatesContract(StoreTests):
    """Retention of superseded states."""

    async def test_a_state_goes_once_the_one_that_replaced_it_is_old_enough(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            for at in (10, 20, 30):
                await owner.append(state(at), fact("other"), at=at)
                await other.append(state(at), at=at)
            assert await drain(store, 20) == 0, "the first was still shown then"
            assert await store.prune(Millis(21)) == Pruned(0, more=False, states=2)
            assert [each.body for each in await read_all(store, B)] == [state(20).body, state(30).body]
            assert await drain(store, FOREVER) == 2
            assert seqs(await read_all(store)) == [2, 4, 5, 6]
            assert [each.body for each in await read_all(store, B)] == [state(30).body]
            assert await drain(store, FOREVER) == 0, "the last one stays"

    async def test_a_state_that_stood_for_long_goes_when_it_is_replaced(self, tmp_path: Path) -> None:
        """Sweeps passed it while it was the last state; the sweep that reaches its successor finds it again."""
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(state("old"), at=1)
            for turn in range(1, 5):
                await owner.answer(turn, 5, ended_at=turn)
                assert await drain(store, FOREVER) == 5
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(state("new"), at=90)
            assert await drain(store, 90) == 0
            assert await drain(store, 91) == 1
            left = [each.body for each in await read_all(store) if each.kind == "state.set"]
            assert left == [state("new").body]

    async def test_a_step_of_retention_counts_states_with_the_chunks(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            for value in range(6):
                await owner.append(state(value))
            await owner.answer(1, 2, ended_at=1)
            steps = [await store.prune(FOREVER, limit=3) for _ in range(3)]
            assert [(step.states, step.chunks, step.more) for step in steps] == [
                (3, 0, True),
                (2, 1, True),
                (0, 1, False),
            ]
            assert await read_all(store, after=5, limit=1) == await read_all(store)

    async def test_a_destroyed_agent_leaves_no_state_to_its_name(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(state("one"), at=1)
            await owner.append(state("two"), at=2)
            assert await drain(store, FOREVER) == 1
            await store.destroy(A, owner.epoch)
            owner = await Owner.take(store)
            await owner.append(state("three"), at=3)
            assert await drain(store, FOREVER) == 0
            await owner.append(state("four"), at=4)
            assert await drain(store, FOREVER) == 1
            assert [each.body for each in await read_all(store)] == [state("four").body]
