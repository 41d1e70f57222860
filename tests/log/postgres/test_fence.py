"""N-1 and N-2 in every interleaving: one owner at a time, and nothing of a node commits after it was declared gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from everyword.errors import Fenced, LogUnavailable, OwnedElsewhere
from everyword.ids import Millis
from everyword.log.base import Activation
from everyword.log.postgres.store import PostgresLog
from tests.log.building import FOREVER, A, Owner, fact
from tests.log.postgres.fence_stage import Stage, interleavings, staged
from tests.log.postgres.takeover import opened_node
from tests.postgres.server import Postgres
from tests.timeouts import PATIENCE

TRIPLES = [
    ("append before commit", "reap", "activate"),
    ("append before fence", "reap", "activate"),
    ("append before commit", "reap", "activate before commit"),
    ("append before commit", "release", "activate"),
    ("append before fence", "release", "activate before commit"),
    ("release", "reap", "activate"),
]


def kinds_of(results: dict[str, Any]) -> dict[str, str]:
    return {name: type(result).__name__ for name, result in results.items()}


async def check_one_owner_at_a_time(stage: Stage) -> None:
    """Check what the operations have led to, then let both nodes write once more."""
    results = stage.results
    appended = next((result for name, result in results.items() if name.startswith("append")), None)
    wrote = any(name.startswith("append") for name in results) and appended is None
    activated = next((result for name, result in results.items() if name.startswith("activate")), None)
    for result in results.values():
        assert isinstance(result, Activation | bool | Fenced | OwnedElsewhere | None), kinds_of(results)
    if isinstance(activated, Activation) and "activate" in results:
        assert activated.head == (2 if wrote else 1), "the new owner does not know the end of the log"

    if "reap" in results:
        assert results["reap"] is True
        await expect_fenced(stage)  # N-2
    owner = await Owner.take(stage.new)
    assert owner.head == (2 if wrote else 1)
    await owner.append(fact("new"))
    await expect_fenced(stage)  # N-1
    expected = ["first", *(["late"] if wrote else []), "new"]
    rows = await stage.rows()
    assert [(seq, kind) for seq, _, kind in rows] == [*enumerate(expected, 1)]
    epochs = [epoch for _, epoch, _ in rows]
    assert epochs == sorted(epochs) and epochs[-1] == owner.epoch > epochs[-2]


async def expect_fenced(stage: Stage) -> None:
    """Let the old owner write: it is fenced.

    While its node registers anew, because it has just learned that it is gone, the store is unavailable instead.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(LogUnavailable):
                with pytest.raises(Fenced):
                    await stage.owner.append(fact("zombie"))
                return
            await stage.watcher.fetchval("SELECT 1")  # gives the heartbeat its time


async def let_go(new: PostgresLog) -> None:
    """Make the agent free again, for the next play."""
    assert new.nodes is not None
    await new.nodes.release([A])


@pytest.mark.slow
@pytest.mark.parametrize("names", TRIPLES, ids=", ".join)
async def test_every_interleaving_leaves_one_owner(
    postgres_server: Postgres, postgres_url: str, names: tuple[str, ...]
) -> None:
    played = 0
    async with opened_node(postgres_url) as new:
        watcher = await postgres_server.connect(postgres_url.rpartition("schema=")[2])
        for steps in interleavings(names):
            async with staged(postgres_server, postgres_url, new, watcher) as stage:
                try:
                    await stage.play(steps)
                    await check_one_owner_at_a_time(stage)
                except AssertionError as error:
                    raise AssertionError(f"{steps}: {kinds_of(stage.results)}") from error
            await let_go(new)
            await watcher.execute("TRUNCATE event, agent")
            played += 1
        await watcher.close()
    assert played == 90


async def test_a_node_that_registered_a_moment_ago_is_not_taken_for_a_dead_one(
    postgres_server: Postgres, postgres_url: str
) -> None:
    """A node that began to take an agent before another node registered must not rob that one of it."""
    async with opened_node(postgres_url) as first, opened_node(postgres_url) as taker:
        owner = await Owner.take(first)
        await owner.append(fact("first"), wake=Millis(1))
        await let_go(first)
        barrier = await postgres_server.connect(postgres_url.rpartition("schema=")[2])
        await barrier.execute("BEGIN; ALTER SEQUENCE agent_key_seq CACHE 1")  # stops `nextval`
        taking = asyncio.create_task(taker.activate(A))
        async with asyncio.timeout(PATIENCE):
            while not await barrier.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
            ):
                pass
        async with opened_node(postgres_url) as late:
            assert late.nodes is not None
            assert await late.nodes.claim(FOREVER) == [(A, 1)]
            await barrier.execute("ROLLBACK")
            with pytest.raises(OwnedElsewhere):
                await taking
            assert (await Owner.take(late)).head == 1
        await barrier.close()


async def test_a_writer_goes_on_after_a_late_call_of_its_older_connection_took_the_fence(
    postgres_server: Postgres, postgres_url: str
) -> None:
    """Its calls are refused then, and nothing else would tell it to take the fence again: the heartbeats go on."""
    async with opened_node(postgres_url) as store:
        assert store.nodes is not None
        owner = await Owner.take(store)
        other = await postgres_server.connect(postgres_url.rpartition("schema=")[2])
        await other.fetchval("SELECT take_fence_1($1, 0)", store.nodes.incarnation)
        await other.close()
        with pytest.raises(Fenced):
            await owner.append(fact("refused"))
        owner = await Owner.take(store)
        await owner.append(fact("written"))
        assert store.nodes.is_valid
