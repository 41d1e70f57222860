"""The agents' own databases on PostgreSQL: only the owner writes them, whole statements, and never for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.errors import Fenced, LogError, LogUnavailable, OutcomeUnknown, SqlError, UsageError
from everyword.events import Chunk, TurnKind, encode_event
from everyword.ids import AgentId, Attempt, Millis, TurnId
from everyword.log.base import Entry, SqlResult
from everyword.log.postgres.address import DatabaseAddress
from everyword.log.postgres.database_pages import BLOCK, changed_pages
from everyword.log.postgres.retention import PostgresRetention
from everyword.log.postgres.store import PostgresLog
from everyword.messages.managed_stream import encode_chunk_event
from tests.log.building import A, B, Owner, agent_row, chunk, ended_row, fact, message_row, turn_row
from tests.log.postgres.takeover import declare_gone, opened_node
from tests.postgres.server import OwnPostgres, Postgres
from tests.tcp_proxy import TcpProxy, TcpProxyProcess
from tests.timeouts import PATIENCE

SHORT = 1.5
"""A lease of which a third is short enough to wait for."""


def submit(store: PostgresLog, query: str, *params: Any, agent: AgentId = A) -> Future[SqlResult]:
    assert store.databases is not None
    return store.databases.submit(agent, query, params)


async def sql(store: PostgresLog, query: str, *params: Any, agent: AgentId = A) -> list[tuple[Any, ...]]:
    return list((await asyncio.wrap_future(submit(store, query, *params, agent=agent))).rows)


@asynccontextmanager
async def looking(server: Postgres, url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection beside the store."""
    connection = await server.connect(url.rpartition("schema=")[2])
    try:
        yield connection
    finally:
        await connection.close()


async def until(query: str, connection: asyncpg.Connection) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await connection.fetchval(query):
            pass


HELLO = b'{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}'
WAITS = "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%')"


# -- pages ------------------------------------------------------------------------------------------------------------


async def test_a_statement_stores_the_pages_that_it_changed_and_no_others(
    postgres_server: Postgres, postgres_url: str
) -> None:
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as watcher:
        await store.activate(A)
        await sql(store, "create table note (id integer primary key, text)")
        numbers = "with recursive n (x) as (select 1 union all select x + 1 from n where x < 2000) select x from n"
        await sql(store, f"insert into note select x, printf('%0100d', x) from ({numbers})")
        before = {row["number"]: row["xmin"] for row in await watcher.fetch("select number, xmin::text from page")}
        assert len(before) > 200
        await sql(store, "update note set text = 'x' where id = 1000")
        await sql(store, "select count(*) from note")
        after = {row["number"]: row["xmin"] for row in await watcher.fetch("select number, xmin::text from page")}
        assert after.keys() == before.keys()
        assert len([number for number in after if after[number] != before[number]]) == 2
    async with opened_node(postgres_url) as store:
        await store.activate(A)
        assert await sql(store, "pragma integrity_check") == [("ok",)]
        assert await sql(store, "select count(*), sum(text = 'x') from note") == [(2000, 1)]


async def test_a_fence_that_an_older_call_took_is_taken_again(postgres_server: Postgres, postgres_url: str) -> None:
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as watcher:
        await store.activate(A)
        await sql(store, "create table note (text)")
        await watcher.execute("update fence set generation = generation + 1 where lane <> 0")
        with pytest.raises(Fenced):
            await sql(store, "insert into note values ('refused')")
        await sql(store, "insert into note values ('written')")
        assert await sql(store, "select text from note") == [("written",)]


async def test_reading_stores_nothing(postgres_server: Postgres, postgres_url: str) -> None:
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as watcher:
        assert store.databases is not None
        await store.activate(A)
        assert await sql(store, "select * from messages") == []
        assert await sql(store, "pragma user_version") == [(0,)]
        assert await watcher.fetchval("select count(*) from page") == 0
        store.databases.release(A).result(PATIENCE)
        assert not await store.databases.has(A)
        await sql(store, "create table note (x)")
        store.databases.release(A).result(PATIENCE)
        assert await store.databases.has(A)


async def test_what_a_failed_statement_leaves_behind_is_stored(postgres_url: str) -> None:
    async with opened_node(postgres_url) as store:
        await store.activate(A)
        await sql(store, "create table note (x unique)")
        with pytest.raises(SqlError):
            await sql(store, "insert or fail into note values (1), (2), (1)")
        with pytest.raises(SqlError):
            await sql(store, "insert into note values (3), (4), (1)")
        assert await sql(store, "select x from note") == [(1,), (2,)]
        await store.activate(A)
        assert await sql(store, "select x from note") == [(1,), (2,)]


@given(
    st.lists(st.integers(0, 3), max_size=200), st.lists(st.integers(0, 3), max_size=200), st.sampled_from([512, BLOCK])
)
def test_changed_pages_are_those_that_differ(before: list[int], after: list[int], size: int) -> None:
    pages = [bytes([number]) * size for number in after]
    old = [bytes([number]) * size for number in before]
    expected = [n for n, page in enumerate(pages) if n >= len(old) or old[n] != page]
    assert changed_pages(b"".join(old), b"".join(pages), size) == expected


async def test_a_database_that_is_full_says_what_to_do_and_goes_on(
    postgres_server: Postgres, postgres_url: str
) -> None:
    async with opened_node(f"{postgres_url}&sql_limit=1") as store, looking(postgres_server, postgres_url) as watcher:
        await store.activate(A)
        await sql(store, "create table note (id integer primary key, x)")
        await sql(store, "insert into note values (1, zeroblob(600000))")
        with pytest.raises(SqlError, match=r"more than 1 MB.*Delete rows, raise the limit with `sql_limit=`"):
            await sql(store, "insert into note values (2, zeroblob(600000))")
        assert await sql(store, "select id from note") == [(1,)]
        await sql(store, "delete from note")
        await sql(store, "insert into note values (3, zeroblob(600000))")
        assert await sql(store, "select id from note") == [(3,)]
        assert await watcher.fetchval("select sum(length(body)) from page") <= 1024 * 1024


@pytest.mark.parametrize(
    "limit",
    [*(f"sql_limit={each}" for each in ("0", "-1", "many", "1025")), *(f"sql_memory={each}" for each in ("0", "x"))],
)
def test_a_limit_that_is_none_is_refused(limit: str) -> None:
    with pytest.raises(UsageError, match="megabytes"):
        DatabaseAddress.parse(f"postgresql://x/y?{limit}")


async def test_open_databases_take_a_limited_amount_of_memory(postgres_url: str) -> None:
    agents = [AgentId(f"chat/{number}") for number in range(4)]
    async with opened_node(f"{postgres_url}&sql_memory=1") as store:
        databases: Any = store.databases
        for agent in agents:
            await store.activate(agent)
            await sql(store, "create table note (x)", agent=agent)
        assert databases.open_count == 4
        for number, agent in enumerate(agents):  # 0.2 MB in the database, 0.4 MB in memory
            await sql(store, "insert into note values (zeroblob(200000))", agent=agent)
            await sql(store, "insert into note values (?)", number, agent=agent)
            assert databases.open_count <= 4
            assert not databases._backend.is_over_memory
        assert databases.open_count == 2  # those that were used last
        assert databases._queues.keys() & set(agents) >= set(agents[2:])
        for _ in range(2):
            for number, agent in enumerate(agents):
                assert await sql(store, "select x from note where length(x) < 9", agent=agent) == [(number,)]
                assert databases.open_count <= 2


async def test_a_database_that_is_larger_than_the_memory_can_be_used(postgres_url: str) -> None:
    async with opened_node(f"{postgres_url}&sql_memory=1") as store:
        databases: Any = store.databases
        for agent in (A, B):
            await store.activate(agent)
            await sql(store, "create table note as select zeroblob(2000000) as x", agent=agent)
            assert await sql(store, "select length(x) from note", agent=agent) == [(2000000,)]
            assert databases.open_count == 1


async def test_many_agents_write_at_once(postgres_url: str) -> None:
    agents = [AgentId(f"notes/{number}") for number in range(30)]
    async with opened_node(postgres_url) as store:
        for agent in agents:
            await store.activate(agent)
        for agent in agents:
            submit(store, "create table note (text)", agent=agent)
        for number in range(5):
            for agent in agents:
                submit(store, "insert into note values (?)", f"{agent} {number}", agent=agent)
        for agent in agents:
            expected = [(f"{agent} {number}",) for number in range(5)]
            assert await sql(store, "select text from note order by rowid", agent=agent) == expected


async def test_a_released_database_takes_no_memory_and_comes_back(postgres_url: str) -> None:
    async with opened_node(postgres_url) as store:
        assert store.databases is not None
        await store.activate(A)
        await sql(store, "create table note (x)")
        assert store._databases.open_count == 1
        store.databases.release(A).result(PATIENCE)
        assert store._databases.open_count == 0
        assert not store._databases._backend._opened  # type: ignore[attr-defined]
        assert await sql(store, "select * from note") == []


async def test_a_destroyed_agent_leaves_no_pages(postgres_server: Postgres, postgres_url: str) -> None:
    child = AgentId(f"{A}/sub/kid/x")
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as watcher:
        for agent in (A, child, B):
            await store.activate(agent)
            await sql(store, "create table note (x)", agent=agent)
        activation = await store.activate(A)
        await store.destroy(A, activation.epoch)
        assert await watcher.fetch("select a.id from page p join agent a on a.key = p.agent group by 1") == [(B,)]
        assert await watcher.fetchval("select count(*) from database") == 1
        with pytest.raises(Fenced):
            await sql(store, "insert into note values (1)")
        await store.activate(A)
        with pytest.raises(SqlError, match="no such table"):
            await sql(store, "select * from note")


# -- one owner --------------------------------------------------------------------------------------------------------


async def test_an_agent_that_is_not_loaded_here_is_refused(postgres_url: str) -> None:
    async with opened_node(postgres_url) as store:
        assert store.nodes is not None
        with pytest.raises(Fenced, match=r"not loaded on this node"):
            await sql(store, "select 1")
        await store.activate(A)
        await sql(store, "create table note (x)")
        await store.nodes.release([A])
        with pytest.raises(Fenced, match=r"not loaded on this node"):
            await sql(store, "select 1")


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("way", ["release", "gone", "epoch"])
async def test_an_old_owner_cannot_write_after_a_takeover(
    postgres_server: Postgres, postgres_url: str, way: str, is_open: bool
) -> None:
    schema = postgres_url.rpartition("schema=")[2]
    async with opened_node(postgres_url) as old, opened_node(postgres_url) as new:
        assert old.nodes is not None and old.databases is not None
        await old.activate(A)
        await sql(old, "create table note (x)")
        if not is_open:
            old.databases.release(A)
        zombie = old._leases.find(A)
        assert zombie is not None
        match way:
            case "release":
                await old.nodes.release([A])
                await new.activate(A)
            case "gone":
                await declare_gone(postgres_server, schema, old)
                await new.activate(A)
            case _:
                await old.activate(A)
        old._leases.put(A, zombie)  # it has not noticed
        with pytest.raises(Fenced):
            await sql(old, "insert into note values ('zombie')")
        with pytest.raises(Fenced):
            await sql(old, "insert into note values ('zombie')")
        owner = old if way == "epoch" else new
        await owner.activate(A)
        await sql(owner, "insert into note values ('new')")
        assert await sql(owner, "select x from note") == [("new",)]


async def test_a_node_that_was_declared_gone_writes_no_pages(postgres_server: Postgres, postgres_url: str) -> None:
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as watcher:
        await store.activate(A)
        await sql(store, "create table note (x)")
        await declare_gone(postgres_server, postgres_url.rpartition("schema=")[2], store)
        before = await watcher.fetch("select number, xmin::text from page")
        with pytest.raises(Fenced):
            await sql(store, "insert into note values (1)")
        assert await watcher.fetch("select number, xmin::text from page") == before


async def test_a_write_of_an_earlier_opening_is_refused(postgres_url: str) -> None:
    async with opened_node(postgres_url) as store:
        backend: Any = store._databases._backend
        await store.activate(A)
        await sql(store, "create table note (x)")
        earlier = backend._opened[A].opening
        assert store.databases is not None
        store.databases.release(A).result(PATIENCE)
        assert await sql(store, "select * from note") == []
        backend._opened[A].opening = earlier
        with pytest.raises(Fenced):
            await sql(store, "insert into note values ('late')")
        assert await sql(store, "select * from note") == []


async def test_a_database_is_opened_again_under_a_new_lease(postgres_url: str) -> None:
    async with opened_node(postgres_url) as store:
        for number in range(3):
            await store.activate(A)
            await sql(store, "create table if not exists note (x)")
            await sql(store, "insert into note values (?)", number)
        assert await sql(store, "select x from note") == [(0,), (1,), (2,)]


async def test_a_statement_of_an_earlier_lease_is_not_run_under_a_later_one(postgres_url: str) -> None:
    async with opened_node(postgres_url) as store:
        await store.activate(A)
        await sql(store, "create table note (x)")
        slow = "with recursive n (x) as (select 1 union all select x + 1 from n where x < 1000000) select max(x) from n"
        submit(store, slow)
        queued = submit(store, "insert into note values (1)")
        await store.activate(A)
        with pytest.raises(Fenced):
            await asyncio.wrap_future(queued)
        assert await sql(store, "select * from note") == []


@pytest.mark.parametrize("place", ["database", "page"], ids=["before the check", "after the check"])
async def test_a_new_owner_waits_for_a_write_that_is_under_way(
    postgres_server: Postgres, postgres_url: str, place: str
) -> None:
    """The write stops at a row that another transaction has locked; meanwhile the agent changes its owner."""
    async with (
        opened_node(postgres_url) as old,
        opened_node(postgres_url) as new,
        looking(postgres_server, postgres_url) as watcher,
        looking(postgres_server, postgres_url) as barrier,
    ):
        assert old.nodes is not None
        await old.activate(A)
        await sql(old, "create table note (x)")
        await barrier.execute("begin")
        await barrier.execute(f"select from {place} for update")
        late = submit(old, "insert into note values ('late')")
        await until(WAITS.format("put_pages"), watcher)
        await old.nodes.release([A])
        await new.activate(A)
        seen = submit(new, "select x from note")
        await until(WAITS.format("open_database"), watcher)
        await barrier.execute("commit")
        rows = (await asyncio.wrap_future(seen)).rows
        if place == "page":
            await asyncio.wrap_future(late)
            assert rows == [("late",)]
        else:
            with pytest.raises(Fenced):
                await asyncio.wrap_future(late)
            assert rows == []


# -- failures ---------------------------------------------------------------------------------------------------------


async def test_a_database_that_does_not_answer_ends_in_an_error_also_for_a_blocked_loop(
    postgres_server: Postgres, postgres_url: str
) -> None:
    schema = postgres_url.rpartition("schema=")[2]
    async with TcpProxyProcess(postgres_server.address) as proxy:
        async with opened_node(f"{proxy.url(postgres_server.tcp_url)}?schema={schema}", lease=SHORT * 4) as store:
            await store.activate(A)
            assert submit(store, "create table note (x)").result(PATIENCE)  # the loop is blocked, and it works
            await proxy.swallow()
            until = time.monotonic() + PATIENCE
            with pytest.raises(OutcomeUnknown, match="not known"):
                submit(store, "insert into note values (1)").result(PATIENCE)
            with pytest.raises(LogError):
                submit(store, "select * from note").result(PATIENCE)
            waiting = [submit(store, "insert into note values (2)") for _ in range(50)]
            for each in waiting:  # the lease is over: if each waited for the database, they would take 100 seconds
                with pytest.raises(LogError):
                    each.result(until - time.monotonic())
            await proxy.restore()


@asynccontextmanager
async def behind_proxy(
    server: Postgres, url: str, answer_within: float = 1.0
) -> AsyncIterator[tuple[PostgresLog, TcpProxy]]:
    """A store that owns an agent. Of its connections only those for the agents' databases go through the proxy."""
    tcp = f"{server.tcp_url}?schema={url.rpartition('schema=')[2]}"
    async with TcpProxy(server.address) as proxy, opened_node(tcp) as store, opened_node(proxy.url(tcp)) as other:
        store._databases._connections = other._databases._connections
        backend: Any = store._databases._backend
        backend.connections = other._databases._connections[0]
        backend.connections._timeout = answer_within
        await store.activate(A)
        yield store, proxy


@pytest.mark.parametrize("way", ["to_target", "to_client"])
async def test_a_statement_whose_outcome_is_not_known_is_there_or_not_there(
    postgres_server: Postgres, postgres_url: str, way: Any
) -> None:
    async with behind_proxy(postgres_server, postgres_url) as (store, proxy):
        await sql(store, "create table note (x)")
        await proxy.swallow(way)
        with pytest.raises(OutcomeUnknown, match="not known"):
            await sql(store, "insert into note values (1)")
        await proxy.cut()
        await proxy.restore()
        rows = await sql(store, "select x from note")
        assert rows == ([(1,)] if way == "to_client" else [])
        await sql(store, "insert into note values (2)")
        assert await sql(store, "pragma integrity_check") == [("ok",)]
        assert await sql(store, "select x from note") == [*rows, (2,)]


async def test_a_connection_that_is_lost_during_a_write_leaves_its_outcome_open(
    postgres_server: Postgres, postgres_url: str
) -> None:
    async with (
        behind_proxy(postgres_server, postgres_url, answer_within=PATIENCE) as (store, proxy),
        looking(postgres_server, postgres_url) as watcher,
        looking(postgres_server, postgres_url) as barrier,
    ):
        await sql(store, "create table note (x)")
        await barrier.execute("begin")
        await barrier.execute("select from page for update")
        lost = submit(store, "insert into note values (1)")
        await until(WAITS.format("put_pages"), watcher)
        await proxy.cut()
        with pytest.raises(OutcomeUnknown, match="not known"):
            await asyncio.wrap_future(lost)
        seen = submit(store, "select x from note")
        await until(WAITS.format("take_fence"), watcher)  # the new connection waits for the call of the old one
        await barrier.execute("commit")
        assert (await asyncio.wrap_future(seen)).rows == [(1,)]


async def test_a_connection_that_is_lost_while_a_database_is_opened_has_written_nothing(
    postgres_server: Postgres, postgres_url: str
) -> None:
    async with (
        behind_proxy(postgres_server, postgres_url, answer_within=PATIENCE) as (store, proxy),
        looking(postgres_server, postgres_url) as watcher,
        looking(postgres_server, postgres_url) as barrier,
    ):
        assert store.databases is not None
        await sql(store, "create table note (x)")
        store.databases.release(A).result(PATIENCE)
        await barrier.execute("begin")
        await barrier.execute("select from database for update")
        lost = submit(store, "insert into note values (1)")
        await until(WAITS.format("open_database"), watcher)
        await proxy.cut()
        with pytest.raises(LogUnavailable, match="unable to open the database"):
            await asyncio.wrap_future(lost)
        await barrier.execute("commit")
        assert await sql(store, "select x from note") == []


async def test_databases_work_after_a_store_that_was_opened_at_the_second_attempt(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_days, failures = PostgresRetention.make_days, [LogUnavailable("unable to do it; the database is busy")]

    async def fail_once(self: PostgresRetention, now: Millis) -> None:
        if failures:
            raise failures.pop()
        await make_days(self, now)

    monkeypatch.setattr(PostgresRetention, "make_days", fail_once)
    async with opened_node(postgres_url) as store:
        assert not failures
        await store.activate(A)
        await sql(store, "create table note (x)")


async def test_a_refused_write_leaves_the_database_as_it_was(postgres_server: Postgres, postgres_url: str) -> None:
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as watcher:
        await store.activate(A)
        await sql(store, "create table note (x)")
        await watcher.execute("alter table page add constraint small check (number < 2) not valid")
        with pytest.raises(LogUnavailable, match="Nothing of the statement was written"):
            await sql(store, "insert into note values (zeroblob(5000))")
        assert await sql(store, "select * from note") == []


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_databases_survive_a_restart_of_postgresql(own_postgres: OwnPostgres, mode: Any) -> None:
    async with opened_node(own_postgres.url, lease=2.0) as store:
        await store.activate(A)
        await sql(store, "create table note (x unique)")
        await sql(store, "insert into note values (1)")
        await own_postgres.restart(mode)
        async with asyncio.timeout(PATIENCE):
            while True:  # until the node has a new lease
                try:
                    await store.activate(A)
                    await sql(store, "insert or ignore into note values (2)")
                    break
                except LogError:
                    await asyncio.sleep(0)
        assert await sql(store, "select x from note") == [(1,), (2,)]


# -- views ------------------------------------------------------------------------------------------------------------


async def test_a_view_is_filled_again_only_after_a_change(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    async with opened_node(postgres_url) as store:
        owner = await Owner.take(store)
        await owner.append(fact("x"), rows=[agent_row(leaf=2), message_row(2, body=HELLO)])
        source: Any = store._databases._find_source()
        read = source.messages
        monkeypatch.setattr(source, "messages", lambda agent: reads.append(agent) or read(agent))
        for _ in range(3):
            assert await sql(store, "select id from messages") == [("m",)]
        assert len(reads) == 1
        await owner.append(fact("x"))
        await sql(store, "select id from messages")
        assert len(reads) == 2
        other = await Owner.take(store, B)
        await other.append(fact("x"))
        await sql(store, "select id from messages")
        assert len(reads) == 2


async def test_a_view_does_not_show_streams_that_were_erased(postgres_url: str) -> None:
    async with opened_node(postgres_url) as store:
        owner = await Owner.take(store)
        await owner.append(fact("x"), rows=[agent_row()])
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1, kind=TurnKind.RSM)])
        piece = Chunk(TurnId(1), Attempt(1), 0, msgspec.Raw(encode_chunk_event(0, "words", 0)))
        await owner.append(Entry("chunk", TurnId(1), encode_event(piece)))
        await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 5, kind=TurnKind.RSM)])
        assert await sql(store, "select content from stream_chunks") == [("words",)]
        assert await store.erase_streams(A, Millis(6)) == 1
        assert await sql(store, "select count(*) from stream_chunks") == [(0,)]


async def test_a_view_does_not_show_chunks_that_retention_deleted(postgres_url: str) -> None:
    chunks = "select count(*) from cf_ai_chat_stream_chunks"
    async with opened_node(postgres_url) as store:
        owner = await Owner.take(store)
        await owner.append(fact("x"), rows=[agent_row()])
        await owner.answer(1, 5, ended_at=5)
        assert await sql(store, chunks) == [(5,)]
        await store.prune(Millis(6), limit=2)
        left = (await sql(store, chunks))[0][0]
        assert 0 < left < 5
        while (await store.prune(Millis(6))).more:
            pass
        assert await sql(store, chunks) == [(0,)]


async def test_a_view_shows_only_what_is_committed(postgres_server: Postgres, postgres_url: str) -> None:
    async with opened_node(postgres_url) as store, looking(postgres_server, postgres_url) as barrier:
        owner = await Owner.take(store)
        await owner.append(fact("x"), rows=[agent_row(), turn_row(1)])
        await barrier.execute("begin")
        await barrier.execute("lock table event in share mode")
        pending = asyncio.ensure_future(owner.append(chunk(1, 0)))
        assert await sql(store, "select count(*) from cf_ai_chat_stream_chunks") == [(0,)]
        await barrier.execute("commit")
        await pending
        assert await sql(store, "select count(*) from cf_ai_chat_stream_chunks") == [(1,)]
