"""`self.sql`: a database per agent, in order, off the loop, alone; what it shows of the log is the agent's own."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword import Agent, AIChatAgent, Everyword
from everyword.agents.sql import Row, Rows
from everyword.errors import LogUnavailable, SqlError, UsageError
from everyword.ids import AgentId
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.postgres.store import PostgresLog
from everyword.log.sqlite import agent_database
from everyword.log.sqlite.agent_databases import MemoryBackend, SqliteAgentDatabases
from everyword.log.sqlite.store import SqliteLog
from everyword.log.views import VIEWS
from everyword.server.stores import drop_database
from tests.agents.streams.kit import until
from tests.loaded_agents import loaded_agent
from tests.log.stores import STORES, stores_of

SECRET = "the others' secret"


class Notes(Agent):
    """Keeps notes."""

    async def prepare(self) -> Notes:
        await self.sql("create table if not exists note (id integer primary key, text unique)")
        return self


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "Hello "
        yield "you."


def user(text: str) -> dict[str, Any]:
    return {"id": f"u-{text}", "role": "user", "parts": [{"type": "text", "text": text}]}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> LogStore:
    return stores_of(request.param, request).make()


@asynccontextmanager
async def notes(store: LogStore) -> AsyncIterator[Notes]:
    async with Everyword([Notes, Chat], store=store) as app:
        yield await (await loaded_agent(app.get(Notes, "ann"))).prepare()


def files_in(folder: Path) -> list[Path]:
    """Return the files of agents' databases."""
    return [file.relative_to(folder) for file in folder.rglob("log.db.agents/*/*")]


# -- statements and rows ----------------------------------------------------------------------------------------------


async def test_a_row_is_asked_by_name_and_by_place(store: LogStore) -> None:
    async with notes(store) as ann:
        await ann.sql("insert into note (text) values (?)", "tea")
        rows = await ann.sql("select id, text from note where text = ?", "tea")
        assert type(rows) is list and rows == [{"id": 1, "text": "tea"}]
        assert (rows[0]["text"], rows[0][1], rows[0][-1], list(rows[0].values())) == ("tea", "tea", "tea", [1, "tea"])
        assert json.loads(json.dumps(rows)) == [{"id": 1, "text": "tea"}]
        with pytest.raises(KeyError):
            rows[0]["nobody"]
        with pytest.raises(IndexError):
            rows[0][2]


async def test_rows_may_be_used_without_await_and_wait_by_themselves(store: LogStore) -> None:
    async with notes(store) as ann:
        ann.sql("insert into note (text) values (?), (?)", "tea", "milk")
        rows = ann.sql("select text from note order by id")
        assert isinstance(rows, Rows)
        assert [row["text"] for row in rows] == ["tea", "milk"]
        assert (len(rows), rows[1][0], rows[-1]["text"], rows[0:1]) == (2, "milk", "milk", [{"text": "tea"}])
        assert rows == [{"text": "tea"}, {"text": "milk"}]
        assert await rows == [{"text": "tea"}, {"text": "milk"}]


async def test_statements_run_in_the_order_in_which_they_were_asked(store: LogStore) -> None:
    async with notes(store) as ann:
        for number in range(300):
            ann.sql("insert into note (text) values (?)", str(number))
        rows = await ann.sql("select text from note order by id")
        assert [row[0] for row in rows] == [str(number) for number in range(300)]


async def test_a_statement_runs_off_the_event_loop(store: LogStore) -> None:
    async with notes(store) as ann:
        endless = (
            "with recursive n (x) as (select 1 union all select x + 1 from n where x < 300000) select max(x) from n"
        )
        slow = ann.sql(endless)
        assert not slow._future.done()
        assert (await slow)[0][0] == 300_000


@pytest.mark.parametrize("value", ["tea", "", 7, -(2**62), 1.5, None, b"\x00\xff", True, "x'); drop table note; --"])
async def test_a_value_comes_back_as_it_was_given(value: Any) -> None:
    async with notes(MemoryLog()) as ann:
        assert (await ann.sql("select ? as it", value))[0]["it"] == value
        assert await ann.sql("select count(*) from note") == [{"count(*)": 0}]


@pytest.mark.parametrize(
    ("query", "params", "why"),
    [
        ("select ?", (), "bindings"),
        ("select 1", (2,), "bindings"),
        ("select ?", ({"a": 1},), "value 1 is a dict"),
        ("select ?, ?", (1, object()), "value 2 is a object"),
        ("select 1; select 2", (), "one statement at a time"),
        ("selekt 1", (), "syntax error"),
        ("select * from nobody", (), "no such table"),
        ("select ?", (2**80,), "too large"),
    ],
)
async def test_what_cannot_be_run_says_why(query: str, params: tuple[Any, ...], why: str) -> None:
    async with notes(MemoryLog()) as ann:
        with pytest.raises(SqlError, match=why) as caught:
            await ann.sql(query, *params)
        assert str(caught.value).startswith("unable to run ")
        assert not caught.value.is_constraint


async def test_a_broken_constraint_is_told_from_other_errors(store: LogStore) -> None:
    async with notes(store) as ann:
        await ann.sql("insert into note (text) values (?) returning id", "tea")
        with pytest.raises(SqlError) as caught:
            await ann.sql("insert into note (text) values (?)", "tea")
        assert caught.value.is_constraint
        assert len(await ann.sql("select * from note")) == 1


async def test_a_statement_that_is_not_awaited_runs_and_its_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with notes(MemoryLog()) as ann:
        ann.sql("insert into note (text) values (?)", "tea")
        ann.sql("insert into nobody (text) values (?)", "milk")
        looked_at = ann.sql("select * from nowhere")
        with pytest.raises(SqlError):
            looked_at[0]
        del looked_at
        gc.collect()
        assert len(await ann.sql("select * from note")) == 1
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(told) == 1
    assert "insert into nobody" in told[0] and "milk" not in told[0]


async def test_rows_that_are_dropped_after_they_came_tell_of_their_error_too(caplog: pytest.LogCaptureFixture) -> None:
    async with notes(MemoryLog()) as ann:
        rows = ann.sql("select * from nowhere")
        await ann.sql("select 1")
        assert caplog.records == []
        del rows
        assert ["nowhere" in record.getMessage() for record in caplog.records] == [True]


async def test_a_statement_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_database, "MAX_SECONDS", 0.05)
    async with notes(MemoryLog()) as ann:
        with pytest.raises(SqlError, match="ran for more than"):
            await ann.sql("with recursive n (x) as (select 1 union all select x + 1 from n) select max(x) from n")
        assert (await ann.sql("select 1"))[0][0] == 1


async def test_a_result_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_database, "MAX_ROWS", 10)
    numbers = "with recursive n (x) as (select 1 union all select x + 1 from n) select x from n limit ?"
    async with notes(MemoryLog()) as ann:
        assert len(await ann.sql(numbers, 10)) == 10
        with pytest.raises(SqlError, match="LIMIT"):
            await ann.sql(numbers, 11)


async def test_full_text_search_works_in_the_agents_own_tables(store: LogStore) -> None:
    async with notes(store) as ann:
        await ann.sql("create virtual table page using fts5(body)")
        await ann.sql("insert into page values (?), (?)", "tea with milk", "coffee")
        assert await ann.sql("select body from page where page match ?", "milk") == [{"body": "tea with milk"}]


# -- one database per agent -------------------------------------------------------------------------------------------


async def test_agents_do_not_share_tables(store: LogStore) -> None:
    async with notes(store) as ann, asyncio.timeout(20):
        await ann.sql("insert into note (text) values (?)", "mine")
        async with ann._runtime._directory.attach(ann._runtime.sub_agents.at("notes", "eve")) as loaded:
            eve = await cast(Notes, loaded.owner).prepare()
            assert await eve.sql("select * from note") == []
        assert len(await ann.sql("select * from note")) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_database_outlives_the_process_where_its_log_does(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stores = stores_of(kind, request)
    for number in range(2):
        async with notes(stores.make()) as ann:
            assert len(await ann.sql("select text from note")) == number
            await ann.sql("insert or ignore into note (text) values (?)", "tea")
            assert await ann.sql("select text from note") == [{"text": "tea"}]
    if kind == "sqlite":
        assert [file.parts[:-1] for file in files_in(tmp_path)] == [("log.db.agents", "notes")]


async def test_a_store_in_memory_that_is_closed_and_opened_again_keeps_databases() -> None:
    store = MemoryLog()
    for number in range(3):
        async with notes(store) as ann:
            await ann.sql("insert into note (text) values (?)", f"{number}" * 10_000)
            assert await ann.sql("select count(*) from note") == [{"count(*)": number + 1}]


async def test_a_database_is_opened_at_first_use_and_closed_when_its_agent_is_unloaded(tmp_path: Path) -> None:
    store = SqliteLog(tmp_path / "log.db")
    async with Everyword([Notes], store=store) as app:
        ann = await loaded_agent(app.get(Notes, "ann"))
        assert files_in(tmp_path) == []
        await ann.prepare()
        assert store.databases.open_count == 1
        loaded = app._directory.peek(AgentId("notes/ann"))
        assert loaded is not None
        loaded.actor.stop()
        await until(lambda: store.databases.open_count == 0)
        assert await ann.sql("select * from note") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_statements_that_wait_when_their_agent_is_unloaded_are_run(
    kind: str, request: pytest.FixtureRequest
) -> None:
    store: Any = stores_of(kind, request).make()
    async with Everyword([Notes], store=store) as app:
        ann = await (await loaded_agent(app.get(Notes, "ann"))).prepare()
        slow = "with recursive n (x) as (select 1 union all select x + 1 from n where x < 300000) select max(x) from n"
        waiting = [ann.sql(slow), *(ann.sql("insert into note (text) values (?)", str(each)) for each in range(40))]
        app._directory.peek(AgentId("notes/ann")).actor.stop()  # type: ignore[union-attr]
        await until(lambda: app._directory.peek(AgentId("notes/ann")) is None)
        for rows in waiting:
            await rows
        ann = await loaded_agent(app.get(Notes, "ann"))
        assert await ann.sql("select count(*) as notes from note") == [{"notes": 40}]


async def test_only_so_many_databases_are_open_and_only_so_many_threads_run() -> None:
    store = MemoryLog()
    await store.open()
    few = SqliteAgentDatabases(MemoryBackend(), store.databases._find_source, max_open=8)
    agents = [AgentId(f"notes/{number}") for number in range(50)]
    for agent in agents:
        few.submit(agent, "create table note (text)", ())
        few.submit(agent, "insert into note values (?)", (agent,))
    found = [few.submit(agent, "select text from note", ()).result(20).rows for agent in agents]
    assert found == [[(agent,)] for agent in agents]
    assert few.open_count <= 8
    assert sum(thread.name.startswith("everyword-sql") for thread in threading.enumerate()) <= 8
    await few.aclose()
    assert few.open_count == 0
    with pytest.raises(LogUnavailable):
        few.submit(agents[0], "select 1", ()).result(20)
    await store.aclose()


async def test_a_dropped_database_is_gone_and_the_next_one_is_new(store: LogStore, tmp_path: Path) -> None:
    async with notes(store) as ann:
        await ann.sql("insert into note (text) values (?)", "tea")
        await drop_database(store, AgentId("notes/ann"))
        assert files_in(tmp_path) == []
        with pytest.raises(SqlError, match="no such table"):
            await ann.sql("select * from note")
        await drop_database(store, AgentId("notes/nobody"))


async def test_a_destroyed_agent_leaves_no_database(store: LogStore, tmp_path: Path) -> None:
    async with Everyword([Notes], store=store) as app:
        ann, bob = [await (await loaded_agent(app.get(Notes, name))).prepare() for name in ("ann", "bob")]
        await ann.destroy()
        assert len([file for file in files_in(tmp_path) if file.suffix == ".db"]) <= 1
        assert await bob.sql("select * from note") == []
        with pytest.raises(SqlError, match="no such table"):
            await (await loaded_agent(app.get(Notes, "ann"))).sql("select * from note")


async def test_dropping_waits_for_what_was_asked_before(store: LogStore) -> None:
    async with notes(store) as ann:
        rows = ann.sql("insert into note (text) values (?) returning text", "tea")
        await drop_database(store, AgentId("notes/ann"))
        assert rows == [{"text": "tea"}]


async def test_what_is_asked_after_the_end_is_refused(store: LogStore) -> None:
    async with notes(store) as ann:
        pass
    with pytest.raises(LogUnavailable, match="closed"):
        await ann.sql("select 1")


async def test_a_store_without_databases_says_so() -> None:
    class Bare:
        databases = LogStore.databases  # the default of a store that says nothing of it

        def __init__(self, inner: MemoryLog) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    store: Any = Bare(MemoryLog())
    async with Everyword([Notes], store=store) as app:
        ann = await loaded_agent(app.get(Notes, "ann"))
        with pytest.raises(UsageError, match="Bare keeps no databases"):
            ann.sql("select 1")
        await drop_database(store, AgentId("notes/ann"))


# -- what is seen of the log ------------------------------------------------------------------------------------------


@asynccontextmanager
async def chatting(store: LogStore) -> AsyncIterator[Chat]:
    """Two agents with a question each: Ann's and another one."""
    async with Everyword([Notes, Chat], store=store) as app:
        await app.get(Chat, "zoe").save_messages([user(SECRET)])
        ann = await loaded_agent(app.get(Chat, "ann"))
        await ann.save_messages([user("hi")])
        yield ann


async def test_the_agents_own_messages_and_streams_can_be_queried(store: LogStore) -> None:
    async with chatting(store) as ann:
        rows = await ann.sql("select role, content from messages")
        assert [tuple(row.values()) for row in rows] == [("user", "hi"), ("assistant", "Hello you.")]
        stored = await ann.sql("select id, message from cf_ai_chat_agent_messages")
        assert [json.loads(row["message"])["id"] for row in stored] == [row["id"] for row in stored]
        streams = await ann.sql("select id, status, error_message from cf_ai_chat_stream_metadata")
        assert [row["status"] for row in streams] == ["completed"]
        chunks = await ann.sql(
            "select c.body from cf_ai_chat_stream_chunks c join cf_ai_chat_stream_metadata m on m.id = c.stream_id "
            "order by c.chunk_index"
        )
        said = [json.loads(row["body"]) for row in chunks]
        assert "".join(chunk.get("delta", "") for chunk in said) == "Hello you."


async def test_a_view_shows_what_was_committed_before_it_was_asked(store: LogStore) -> None:
    async with chatting(store) as ann:
        for number in range(5):
            await ann.save_messages([user(f"again {number}")])
            rows = await ann.sql("select content from messages where role = 'user' order by rowid desc limit 1")
            assert rows == [{"content": f"again {number}"}]
        await ann.clear_history()
        assert await ann.sql("select * from MESSAGES") == []
        assert await ann.sql('select * from "cf_ai_chat_stream_chunks"') == []


async def test_views_can_be_joined_with_the_agents_own_tables(store: LogStore) -> None:
    async with chatting(store) as ann:
        await ann.sql("create table star (message text)")
        await ann.sql("insert into star select id from messages where role = ?", "user")
        rows = await ann.sql("select content from messages join star on star.message = messages.id")
        assert rows == [{"content": "hi"}]


ATTACKS = [
    "attach database '{log}' as other",
    "attach 'file:{log}?mode=ro' as other",
    "detach main",
    "vacuum into '{log}.copy'",
    "vacuum",
    "pragma database_list",
    "select * from pragma_database_list",
    "pragma writable_schema = 1",
    "pragma temp_store_directory = '/'",
    "pragma journal_mode = delete",
    "select load_extension('x')",
    "select fts3_tokenizer('simple')",
    "create virtual table spy using dbstat('{log}')",
    "create virtual table spy using csv(filename='{log}')",
    "create temp table spy (x)",
    "create temp view spy as select * from messages",
    "create temp trigger spy after insert on note begin select 1; end",
    "insert into messages values ('a', 'user', 'forged', 1)",
    "update messages set content = 'forged'",
    "delete from messages",
    "delete from temp.stream_chunks",
    "replace into cf_ai_chat_agent_messages values ('a', 'b', 1)",
    "drop table messages",
    "drop table temp.messages",
    "alter table messages add column x",
    "alter table note rename to messages",
    "create table messages (x)",
    "create view stream_metadata as select 1",
    "create index spy on messages (id)",
    "begin",
    "savepoint a",
    "commit",
]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_statement_that_reaches_beyond_the_database_is_refused(attack: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with chatting(SqliteLog(path)) as ann:
        await ann.sql("create table if not exists note (x)")
        before = await ann.sql("select * from messages")
        with pytest.raises(SqlError):
            await ann.sql(attack.format(log=path))
        assert await ann.sql("select * from messages") == before
        assert "log.db.copy" not in os.listdir(tmp_path)


async def test_a_statement_that_reaches_beyond_the_database_is_refused_on_postgresql(postgres_url: str) -> None:
    async with chatting(PostgresLog(postgres_url)) as ann:
        await ann.sql("create table if not exists note (x)")
        before = await ann.sql("select * from messages")
        for attack in ATTACKS:
            with pytest.raises(SqlError):
                await ann.sql(attack.format(log="log.db"))
        assert await ann.sql("select * from messages") == before


TRICKS = [
    "with messages as (select * from event) select * from messages",
    "with recursive messages (x) as (select body from log.event union select x from messages) select * from messages",
    "select * from (select * from main.event) as messages",
    "select * from agent",
    "select count(*) from event",
    "select * from log.message",
    "select * from temp.event",
    "select body from main.message",
    "select * from sqlite_schema union all select * from sqlite_temp_schema",
    "select * from messages union all select id, kind, body, at from event",
    "select (select group_concat(body) from event) from messages",
    "explain query plan select * from messages",
    "select * from messages where content like '%secret%'",
    "select * from cf_ai_chat_stream_metadata where 1 or id > 0",
    "select * from cf_ai_chat_agent_messages",
    "select * from dbstat",
]


@pytest.mark.parametrize("trick", TRICKS)
async def test_no_query_shows_what_belongs_to_another_agent(trick: str, tmp_path: Path) -> None:
    async with chatting(SqliteLog(tmp_path / "log.db")) as ann:
        try:
            found = repr(await ann.sql(trick))
        except SqlError as exc:
            found = str(exc).replace(trick, "")
        assert SECRET not in found and "zoe" not in found


async def test_no_query_shows_what_belongs_to_another_agent_on_postgresql(postgres_url: str) -> None:
    async with chatting(PostgresLog(postgres_url)) as ann:
        for trick in TRICKS:
            try:
                found = repr(await ann.sql(trick))
            except SqlError as exc:
                found = str(exc).replace(trick, "")
            assert SECRET not in found and "zoe" not in found


async def test_a_view_of_the_agents_own_cannot_borrow_the_name_of_ours(store: LogStore) -> None:
    async with chatting(store) as ann:
        await ann.sql("create table note (x)")
        await ann.sql("create view mine as select * from note")
        assert await ann.sql("select * from mine") == []
        await ann.sql("create view spy as select * from messages")
        with pytest.raises(SqlError, match=r"no such table: main\.messages"):
            await ann.sql("select * from spy")


async def test_the_agents_own_tables_may_have_the_names_that_the_log_uses(store: LogStore) -> None:
    async with chatting(store) as ann:
        for name in ("event", "agent", "turn", "message", "kept", "mark", "wake", "store"):
            await ann.sql(f"create table {name} (x)")
            assert await ann.sql(f"select * from {name}") == []


def test_every_view_has_a_table_and_something_that_fills_it() -> None:
    assert set(agent_database._CREATE) == {*VIEWS, "empty", "fill"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(-5, 5), st.text(max_size=3)))))
def test_a_row_agrees_with_its_columns_whatever_they_are_called(pairs: list[tuple[str, Any]]) -> None:
    columns, values = [name for name, _ in pairs], tuple(value for _, value in pairs)
    row = Row(columns, values)
    assert [row[place] for place in range(len(values))] == list(values)
    assert dict(row) == dict(pairs)
