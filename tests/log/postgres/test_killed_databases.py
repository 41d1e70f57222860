"""A node is killed while it writes its agent's database: every acknowledged statement is there, and none by halves."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from everyword.log.postgres.store import PostgresLog
from tests.forked_processes import fork_process
from tests.log.building import A
from tests.log.postgres.takeover import node_of, opened_node
from tests.log.postgres.test_agent_databases import WAITS, looking, sql, until
from tests.postgres.server import Postgres

pytestmark = pytest.mark.crash

WRITER = "tests.log.postgres.sql_writer"


async def take(store: PostgresLog, watcher: asyncpg.Connection) -> None:
    """Declare every other node gone, and take the agent."""
    others = "state <> 'gone' and id <> $1"
    ended = f"update node set until = clock_timestamp() - interval '1 s' where {others}"
    await watcher.execute(ended, node_of(store))
    gone = await watcher.fetch(f"select declare_gone_1(id) from node where {others}", node_of(store))
    assert [row[0] for row in gone] == [True]
    await store.activate(A)


async def check(store: PostgresLog, acknowledged: int) -> int:
    """Check that the database is whole; return how many entries it has."""
    assert await sql(store, "pragma integrity_check") == [("ok",)]
    ((entries, counted, size),) = await sql(
        store, "select count(*), (select entries from total), min(length(text)) from entry"
    )
    assert (entries, size) == (counted, 6000)
    assert entries >= acknowledged  # more acknowledgements may have been in the pipe
    return int(entries)


async def test_a_killed_process_leaves_whole_statements(postgres_server: Postgres, postgres_url: str) -> None:
    entries = 0
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as watcher:
        assert store.nodes is not None
        for statements in (1, 4, 9, 14):
            process = fork_process(WRITER, postgres_url)
            await asyncio.to_thread(process.read, until=f"{statements}\n")
            process.kill()
            await take(store, watcher)
            entries = await check(store, entries + statements)
            await store.nodes.release([A])


@pytest.mark.parametrize("place", ["database", "page"], ids=["before the check", "after the check"])
async def test_a_process_that_is_killed_during_a_statement_leaves_all_of_it_or_nothing(
    postgres_server: Postgres, postgres_url: str, place: str
) -> None:
    async with (
        opened_node(postgres_url) as store,
        looking(postgres_server, postgres_url) as watcher,
        looking(postgres_server, postgres_url) as barrier,
    ):
        process = fork_process(WRITER, postgres_url)
        await asyncio.to_thread(process.read, until="3\n")
        await barrier.execute("begin")
        await barrier.execute(f"select from {place} for update")
        await until(WAITS.format("put_pages"), watcher)
        process.kill()
        await barrier.execute("commit")
        await take(store, watcher)
        assert await check(store, 3) >= 3
