"""What nodes see of the changes of lists by other nodes."""

from __future__ import annotations

import asyncio

import asyncpg

from everyword.ids import AgentId, Millis
from everyword.log.lists import ListChange
from everyword.log.postgres.address import DatabaseAddress
from everyword.log.postgres.store import PostgresLog
from everyword.rows import CONVERSATION, ConversationSummary, KeptRow, encode_listed
from tests.log.building import Owner, fact
from tests.timeouts import PATIENCE

HOUR = 3_600_000
LATER = 2**50


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
                assert found == [ListChange(AgentId("chat/c"), False, now)]
                await writer.execute("select note_list_change('chat/a')")
            _, found = await store.lists.changed_since(Millis(now - HOUR))
            assert sorted(each.agent for each in found) == ["chat/a", "chat/b", "chat/c"]
            await writer.execute("update list_change set changed = $1", now - 2 * HOUR)
            await store.lists.changed_since(Millis(0))
            assert await writer.fetchval("select count(*) from list_change") == 0
    finally:
        await writer.close()
        await store.aclose()


async def test_changes_of_one_millisecond_have_different_times(postgres_url: str) -> None:
    """Nodes compare the times that they find: a change with that of the one before would not be told to watchers."""
    store = PostgresLog(postgres_url)
    await store.open()
    address = DatabaseAddress.parse(postgres_url)
    writer = await asyncpg.connect(address.dsn, server_settings={"search_path": address.schema})
    row = KeptRow(CONVERSATION, "", encode_listed(ConversationSummary(Millis(1), Millis(1))))
    try:
        async with asyncio.timeout(PATIENCE):
            owner = await Owner.take(store, AgentId("chat/a"))
            await owner.append(fact("x"), rows=[row])
            await writer.execute("select note_list_change('chat/a')")
            # As if the clock stood still: it does not reach the time of the last change during the test.
            await writer.execute("update conversation set changed = $1", LATER)
            await writer.execute("update list_change set changed = $1", LATER)
            await owner.append(fact("x"), rows=[row])
            await writer.execute("select note_list_change('chat/a')")
            _, found = await store.lists.changed_since(Millis(0))
            times = {each.is_listed: each.at for each in found}
            assert times == {True: LATER + 1, False: LATER + 1}, "and each row is written once"
    finally:
        await writer.close()
        await store.aclose()
