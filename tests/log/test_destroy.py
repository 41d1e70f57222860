"""Destroying an agent, in every store alike: all of it and of what is below it, or nothing; no old writer is left."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from everyword.errors import Fenced
from everyword.ids import AgentId, Epoch, Millis, RequestId, Seq, TurnId, children_prefix
from everyword.log.sqlite.store import SqliteLog
from everyword.rows import KeptRow
from tests.log.building import (
    FOREVER,
    A,
    B,
    Owner,
    Store,
    agent_row,
    append_one,
    chunk,
    drain,
    fact,
    message_row,
    read_all,
    seqs,
)
from tests.log.sqlite.faults import Faults, hold_writer
from tests.log.stores import STORES, Stores

CHILD, GRANDCHILD = AgentId(f"{A}/sub/kid/x"), AgentId(f"{A}/sub/kid/x/sub/kid/y")
NEIGHBOURS = [B, AgentId(f"{A}b"), AgentId(f"{A}/subway"), AgentId(f"{A}0")]

pytestmark = pytest.mark.parametrize("kind", STORES)


async def lived(store: Store, agent: AgentId) -> Owner:
    """Let an agent have something of everything that is stored."""
    owner = await Owner.take(store, agent)
    await owner.answer(1, 300, ended_at=5)
    await owner.answer(2, 3)
    rows = [message_row(1), agent_row(1, 1, 2, 1), KeptRow("state", "", b"1"), KeptRow("job", "j", b"{}")]
    await owner.append(fact("x"), rows=rows, wake=Millis(7))
    return owner


async def everything(store: Store, agent: AgentId) -> object:
    return (
        await read_all(store, agent),
        await store.turns(agent),
        await store.conversation(agent),
        await store.kept(agent),
        [each for each in await store.due(FOREVER) if each[0] == agent],
    )


NOTHING: object = ([], [], (None, []), [], [])


async def test_an_agent_and_all_below_it_are_gone_and_no_other_agent(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await lived(store, A)
        for agent in (CHILD, GRANDCHILD, *NEIGHBOURS):
            await lived(store, agent)
        before = [await everything(store, agent) for agent in NEIGHBOURS]
        await store.destroy(A, owner.epoch)
        for agent in (A, CHILD, GRANDCHILD):
            assert await everything(store, agent) == NOTHING
            assert await store.find_turn(agent, RequestId("r1")) is None
            assert await store.read_turn(agent, TurnId(1)) == []
        assert await store.agents() == NEIGHBOURS
        assert await store.agents(children_prefix(A)) == []
        assert [await everything(store, agent) for agent in NEIGHBOURS] == before


async def test_the_name_is_that_of_a_new_agent_and_old_writers_are_fenced(stores: Stores) -> None:
    """P-57."""
    async with stores.opened() as store:
        old, child = await lived(store, A), await lived(store, CHILD)
        await store.destroy(A, old.epoch)
        for owner in (old, child):
            with pytest.raises(Fenced):
                await owner.append(fact("late"))
        new = await Owner.take(store, A)
        assert (new.head, new.activation.turns, new.activation.messages, new.activation.kept) == (0, [], [], [])
        assert new.epoch > old.epoch
        with pytest.raises(Fenced):
            await old.append(fact("late"), first=1)
        await new.answer(1, 300, ended_at=9)
        assert seqs(await read_all(store, A)) == list(range(1, 305))
        assert len(await store.read_turn(A, TurnId(1))) == 300
        assert await store.agents() == [A]


async def test_a_process_without_the_lease_destroys_nothing(stores: Stores) -> None:
    async with stores.opened() as store:
        old = await lived(store, A)
        await Owner.take(store, A)
        before = await everything(store, A)
        for agent, epoch in ((A, old.epoch), (AgentId("chat/nobody"), Epoch(1))):
            with pytest.raises(Fenced):
                await store.destroy(agent, epoch)
        assert await everything(store, A) == before


async def test_a_name_can_be_destroyed_again_and_again(stores: Stores) -> None:
    async with stores.opened() as store:
        epochs = []
        for _ in range(3):
            owner = await lived(store, A)
            epochs.append(owner.epoch)
            await store.destroy(A, owner.epoch)
            assert await everything(store, A) == NOTHING
        assert epochs == sorted(set(epochs))


async def test_retention_goes_on_beside_what_was_destroyed(stores: Stores) -> None:
    async with stores.opened() as store:
        gone, kept = await Owner.take(store, A), await Owner.take(store, B)
        for turn in (1, 2, 3):
            await gone.answer(turn, 40, ended_at=5)
            await kept.answer(turn, 40, ended_at=5)
        await drain(store, 6, limit=30)
        await store.destroy(A, gone.epoch)
        await kept.answer(4, 40, ended_at=7)
        assert await drain(store, 8) == 40
        assert [event.kind for event in await read_all(store, B)].count("chunk") == 0
        assert await everything(store, A) == NOTHING


async def test_what_was_destroyed_stays_gone_when_the_store_is_opened_again(stores: Stores) -> None:
    async with stores.opened() as store:
        other, owner = await lived(store, B), await lived(store, A)
        await store.destroy(A, owner.epoch)
    async with stores.opened() as store:
        assert await everything(store, A) == NOTHING
        new = await Owner.take(store, A)
        assert (new.head, new.epoch > owner.epoch) == (0, True)
        assert len(await read_all(store, B)) == other.head


async def test_what_the_same_transaction_brought_goes_too(stores: Stores) -> None:
    """What waits while a commit is in flight is one transaction: appends, the end of an agent, and what comes after."""
    faults = Faults()
    options = {"factory": faults.factory()} if stores.kind == "sqlite" else {}
    async with stores.opened(**options) as store:
        owner, child, other = await lived(store, A), await lived(store, CHILD), await lived(store, B)
        batches = [
            each.batch(chunk(2, 3 + n), first=each.head + 1 + n) for n in range(20) for each in (owner, child, other)
        ]
        release = await hold_writer(store, faults) if isinstance(store, SqliteLog) else lambda: None
        jobs: list[Any] = list(store.append(batches))
        jobs.append(asyncio.ensure_future(store.destroy(A, owner.epoch)))
        await asyncio.sleep(0)
        jobs.append(append_one(store, other.batch(chunk(2, 30), first=other.head + 21)))
        release()
        await asyncio.gather(*jobs)
        assert await everything(store, A) == await everything(store, CHILD) == NOTHING
        assert seqs(await read_all(store, B)) == list(range(1, other.head + 22))
        new = await Owner.take(store, A)
        await new.answer(1, 3)
        assert seqs(await read_all(store, A)) == [1, 2, 3, 4, 5]
        if stores.kind == "sqlite":
            with closing(sqlite3.connect(stores.folder / "log.db")) as raw:
                assert raw.execute("SELECT count(*) FROM event").fetchone()[0] == 5 + other.head + 21


async def test_a_store_with_a_destroyed_agent_reads_as_one_that_never_had_it(stores: Stores) -> None:
    """Batches of several agents lie in one file, in any order; what goes leaves no hole for the others."""
    async with stores.opened() as store:
        owners = {agent: await Owner.take(store, agent) for agent in (A, CHILD, B)}
        for n in range(700):
            await owners[(A, CHILD, B)[n * 7 % 5 % 3]].append(chunk(1, n))
        await store.destroy(A, owners[A].epoch)
        kept = owners[B]
        assert seqs(await read_all(store, B)) == list(range(1, kept.head + 1))
        assert seqs(await store.read(B, Seq(kept.head - 2))) == [kept.head - 1, kept.head]
        assert await read_all(store, A) == await read_all(store, CHILD) == []
