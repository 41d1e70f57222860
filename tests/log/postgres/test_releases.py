"""Two releases share a database: what only the new one knows is used when no node of the old one is left (N-6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from everyword.errors import LogTooNew
from everyword.log.features import is_usable
from everyword.log.nodes import LiveNode
from everyword.log.postgres.address import DatabaseAddress
from everyword.log.postgres.connection import TOO_OLD
from everyword.log.postgres.store import PostgresLog
from tests.nodes.releases import FEATURE, NEW, OLD, play_release
from tests.timeouts import PATIENCE


@pytest.fixture(autouse=True)
def _present_release() -> Iterator[None]:
    yield
    play_release(OLD)


@asynccontextmanager
async def opened(url: str, version: int) -> AsyncIterator[PostgresLog]:
    play_release(version)
    store = PostgresLog(url, lease=2.0, name=f"release {version}")
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    """Connect without a node; the connection runs statements of the schema."""
    address = DatabaseAddress.parse(url)
    connection = await asyncpg.connect(address.dsn, server_settings={"search_path": address.schema})
    try:
        yield connection
    finally:
        await connection.close()


class Changes:
    """Is told by the heartbeat when the nodes change."""

    def __init__(self) -> None:
        self.happened = asyncio.Event()

    def lost_lease(self, why: str) -> None:
        raise AssertionError(why)

    def nodes_changed(self, nodes: Sequence[LiveNode]) -> None:
        del nodes
        self.happened.set()


async def until_usable(store: PostgresLog) -> None:
    """Wait until the others are gone."""
    changes = Changes()
    assert store.nodes is not None
    store.nodes.listen(changes)
    async with asyncio.timeout(PATIENCE):
        while not await is_usable(FEATURE, store.nodes):
            await changes.happened.wait()
            changes.happened.clear()


async def test_a_feature_waits_for_the_last_node_of_the_old_release(postgres_url: str) -> None:
    async with opened(postgres_url, OLD) as old, opened(postgres_url, NEW) as new:
        assert not await is_usable(FEATURE, new.nodes)
        assert new.nodes is not None and await new.nodes.every_node_knows(OLD)
        await old.aclose()
        await until_usable(new)


async def test_an_old_node_that_joins_unnoticed_counts(postgres_url: str) -> None:
    """The list of live nodes is as old as the last heartbeat; the database decides."""
    async with opened(postgres_url, NEW) as new, connected(postgres_url) as other:
        await other.fetchval("select register_2('old', '', $1, $2)", OLD, timedelta(seconds=60))
        assert new.nodes is not None and not await is_usable(FEATURE, new.nodes)


async def test_a_deploy_can_be_rolled_back_until_the_feature_is_used(postgres_url: str) -> None:
    async with opened(postgres_url, OLD):
        pass
    async with opened(postgres_url, NEW) as new:
        async with opened(postgres_url, OLD) as old:
            assert await old.agents() == []
            assert not await is_usable(FEATURE, new.nodes)
        await until_usable(new)
        with pytest.raises(LogTooNew, match=rf"version {NEW}, and this everyword knows {OLD}\. Upgrade everyword"):
            async with opened(postgres_url, OLD):
                pass
    with pytest.raises(LogTooNew):  # the nodes have gone, what they wrote has not
        async with opened(postgres_url, OLD):
            pass
    async with opened(postgres_url, NEW) as again:
        assert await is_usable(FEATURE, again.nodes)


async def test_a_node_that_was_taken_for_dead_cannot_come_back_after_the_use(postgres_url: str) -> None:
    async with opened(postgres_url, NEW) as new:
        await until_usable(new)
        async with connected(postgres_url) as other:
            with pytest.raises(asyncpg.PostgresError, match=f"version {NEW} is needed") as refused:
                await other.fetchval("select register_2('old', '', $1, $2)", OLD, timedelta(seconds=60))
            assert refused.value.sqlstate == TOO_OLD
            assert await other.fetchval("select count(*) from node where name = 'old'") == 0


async def waits_for_a_lock(watcher: Any, backend: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await watcher.fetchval("select cardinality(pg_blocking_pids($1)) > 0", backend):
            pass


@pytest.mark.parametrize("is_joining_first", [False, True])
async def test_joining_and_using_at_the_same_moment_wait_for_each_other(
    postgres_url: str, is_joining_first: bool
) -> None:
    async with opened(postgres_url, NEW):
        pass
    join, use = f"select register_2('old', '', {OLD}, '60 s')", f"select raise_oldest_1({NEW})"
    first, second = (join, use) if is_joining_first else (use, join)
    async with connected(postgres_url) as one, connected(postgres_url) as two, connected(postgres_url) as watcher:
        backend = two.get_server_pid()
        async with one.transaction():
            await one.fetchval(first)
            waiting = asyncio.create_task(two.fetchval(second))
            await waits_for_a_lock(watcher, backend)
        if is_joining_first:
            assert await waiting is False
        else:
            with pytest.raises(asyncpg.PostgresError) as refused:
                await waiting
            assert refused.value.sqlstate == TOO_OLD
