"""Rewrite a log, in every store: events and chunks by their seq, wherever their rows are."""

from __future__ import annotations

import pytest

from everyword.errors import Fenced
from everyword.ids import Epoch, Seq, TurnId
from everyword.log.erasing import Rewriting
from tests.log.building import A, Owner, chunks, fact, read_all, turn_row
from tests.log.stores import STORES, Stores

pytestmark = pytest.mark.parametrize("kind", STORES)

NEW = b'{"t":"chunk","turn":1,"attempt":1,"index":%d,"body":{"type":"tool-output-available","output":"gone"}}'


async def test_chunks_are_rewritten_alone_in_their_row_and_beside_others(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await Owner.take(store)
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)])
        await owner.append(*chunks(1, 5))
        await owner.append(*chunks(1, 1, first=5))
        await owner.append(*chunks(1, 3, first=6))
        before = await read_all(store)
        changed = {Seq(seq): NEW % (seq - 2) for seq in (2, 4, 6, 7, 9)}
        assert store.erasure is not None
        rewriting = Rewriting(A, owner.epoch, [(Seq(1), b'{"t":"x"}')], [], [turn_row(1)], None, [*changed.items()])
        await store.erasure.rewrite(rewriting)
        after = await read_all(store)
        assert [each.seq for each in after] == [each.seq for each in before]
        expected = {**{each.seq: each.body for each in before}, **changed, Seq(1): b'{"t":"x"}'}
        assert {each.seq: each.body for each in after} == expected
        assert [each.body for each in await store.read_turn(A, TurnId(1))] == [expected[Seq(n)] for n in range(2, 11)]
        late = Rewriting(A, Epoch(owner.epoch - 1), [], [], [], None, [(Seq(3), NEW % 1)])
        with pytest.raises(Fenced):
            await store.erasure.rewrite(late)
        assert await read_all(store) == after
