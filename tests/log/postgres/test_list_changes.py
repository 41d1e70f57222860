"""What nodes see of the changes of lists by other nodes."""

from __future__ import annotations

import asyncio

import asyncpg

from everyword.ids import Millis
from everyword.log.postgres.address import DatabaseAddress
from everyword.log.postgres.store import PostgresLog
from tests.timeouts import PATIENCE

HOUR = 3_600_000


async def test_old_changes_are_deleted_without_waiting_for_those_that_are_being_written(postgres_url: str) -> None:
    store = PostgresLog(postgres_url)
    await store.open()
    address = DatabaseAddress.parse(postgres_url)
    writer = await asyncpg.connect(address.dsn, server_settings={"search_path": address.schema})
    try:
        async with asyncio.timeout(PATIENCE):
            now, found = await store.lists.changed_since(Millis(0))
            assert found == []
            rows = [("chat/a", now - 2 * HOUR), ("chat/b", now - 2 * HOUR), ("chat/c", now)]
            await writer.executemany("insert into list_change (id, changed) values ($1, $2)", rows)
            async with writer.transaction():
                await writer.execute("select note_list_change('chat/b')")
                _, found = await store.lists.changed_since(Millis(now - HOUR))
                assert found == [("chat/c", now)]
                await writer.execute("select note_list_change('chat/a')")
            _, found = await store.lists.changed_since(Millis(now - HOUR))
            assert sorted(agent for agent, _ in found) == ["chat/a", "chat/b", "chat/c"]
            await writer.execute("update list_change set changed = $1", now - 2 * HOUR)
            await store.lists.changed_since(Millis(0))
            assert await writer.fetchval("select count(*) from list_change") == 0
    finally:
        await writer.close()
        await store.aclose()
