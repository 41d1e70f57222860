"""`everyword copy`: a file into a database, with the same exports afterwards; interrupted, repeated and refused."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from everyword import Agent, AIChatAgent, Everyword, Principal
from everyword.cli import main
from everyword.errors import LogUnavailable
from everyword.ids import Millis
from everyword.log.postgres import agent_transfer
from everyword.log.postgres.store import PostgresLog
from everyword.log.sqlite.lock import FileLock
from everyword.runtime.clock import SystemClock
from tests.cli.kit import Tty, execute, owned, speaker
from tests.loaded_agents import loaded_agent
from tests.runtime.facts import eventually
from tests.server.kit import chat

Captured = pytest.CaptureFixture[str]
AGENTS = ("chat/ann", "chat/bob", "chat/dan", "chat/cid")
NOW = Millis(2_000_000_000_000)


def say(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


def exports(capsys: Captured, db: str, *agents: str) -> list[str]:
    return [say(capsys, "export", agent, "-o", "-", "--with-details", "--db", db)[1] for agent in agents]


def test_the_copy_has_the_same_exports_and_the_next_epochs(
    stored: Path, postgres_url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    code, out, _ = say(capsys, "copy", str(stored), postgres_url)
    assert code == 0
    assert out.startswith("4 agents, ")
    assert out.endswith(" copied: both stores have the same logs\n")
    assert exports(capsys, str(stored), *AGENTS) == exports(capsys, postgres_url, *AGENTS)
    of_file, of_database = (
        json.loads(say(capsys, "ls", "--json", "--db", db)[1]) for db in (str(stored), postgres_url)
    )
    assert [{**each, "epoch": each["epoch"] + 1} for each in of_file] == of_database
    for agent in AGENTS:
        shown = [json.loads(say(capsys, "show", agent, "--json", "--db", db)[1]) for db in (str(stored), postgres_url)]
        assert {**shown[0], "epoch": shown[0]["epoch"] + 1} == shown[1]
    assert say(capsys, "doctor", "--no-app", "--db", postgres_url)[0] == 0


def test_a_log_that_retention_has_thinned_keeps_its_numbers(stored: Path, postgres_url: str, capsys: Captured) -> None:
    async def set_states() -> None:
        async with chat(speaker(), store=str(stored)) as app:
            ann = app.get(next(iter(app.classes.values())), "ann")
            for value in range(4):
                await ann.set_state(value)

    asyncio.run(set_states())
    assert say(capsys, "gc", "--keep", "0s", "--db", str(stored))[0] == 0
    assert say(capsys, "copy", str(stored), postgres_url)[0] == 0
    seqs = [
        [json.loads(line).get("seq") for line in export.splitlines()]
        for db in (str(stored), postgres_url)
        for export in exports(capsys, db, "chat/ann")
    ]
    assert seqs[0] == seqs[1]
    assert say(capsys, "doctor", "--no-app", "--db", postgres_url)[0] == 0


def test_states_that_were_replaced_are_deleted_from_the_copy_too(
    stored: Path, postgres_url: str, capsys: Captured
) -> None:
    async def set_states() -> None:
        async with chat(speaker(), store=str(stored)) as app:
            for value in range(4):
                await app.get(next(iter(app.classes.values())), "ann").set_state(value)

    asyncio.run(set_states())
    assert say(capsys, "copy", str(stored), postgres_url)[0] == 0
    said = [
        json.loads(say(capsys, "gc", "--keep", "0s", "--json", "--db", db)[1]) for db in (str(stored), postgres_url)
    ]
    assert [(each["chunks"], each["states"]) for each in said] == [(said[0]["chunks"], 3)] * 2
    assert say(capsys, "doctor", "--no-app", "--db", postgres_url)[0] == 0


def test_a_turn_that_has_not_ended_continues_in_the_database(stored: Path, postgres_url: str, capsys: Captured) -> None:
    assert say(capsys, "copy", str(stored), postgres_url)[0] == 0

    async def serve() -> None:
        async with chat(speaker(), store=postgres_url) as app:
            await app.get(next(iter(app.classes.values())), "cid").save_messages("and now")

    asyncio.run(serve())
    shown = json.loads(say(capsys, "show", "chat/cid", "--json", "--db", postgres_url)[1])
    assert [turn["status"] for turn in shown["turns"]] == ["completed", "completed"]
    code, out, err = say(capsys, "copy", str(stored), postgres_url)
    assert (code, out) == (
        0,
        "0 agents, 0 events copied; 4 agents had been copied before: both stores have the same logs\n",
    )
    assert "1 agent went on in postgresql://" in err


def test_a_copy_that_is_made_again_writes_nothing(stored: Path, postgres_url: str, capsys: Captured) -> None:
    first = json.loads(say(capsys, "copy", str(stored), postgres_url, "--json")[1])
    second = json.loads(say(capsys, "copy", str(stored), postgres_url, "--json")[1])
    assert (first["copied"], first["present"], first["isSame"]) == (4, 0, True)
    assert (second["copied"], second["present"], second["isSame"], second["events"]) == (0, 4, True, 0)
    assert [(each["agent"], each["sha256"], each["events"]) for each in first["agents"]] == [
        (each["agent"], each["sha256"], each["events"]) for each in second["agents"]
    ]


class Cut:
    """A connection that is lost when it runs a statement."""

    def __init__(self, connection: Any, statement: str) -> None:
        self._connection, self._statement = connection, statement
        self.transaction, self.fetchrow = connection.transaction, connection.fetchrow

    async def execute(self, query: str, *values: Any) -> Any:
        self._cut(query)
        return await self._connection.execute(query, *values)

    async def fetchval(self, query: str, *values: Any) -> Any:
        self._cut(query)
        return await self._connection.fetchval(query, *values)

    def _cut(self, query: str) -> None:
        if query == self._statement:
            self._connection.terminate()


@pytest.mark.parametrize("statement", ["append", "replace_rows", "release"])
def test_an_interrupted_copy_goes_on_where_it_stopped(
    statement: str, stored: Path, postgres_url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lose the connection in the middle of the third agent: it is not there, and the first two are there as a whole."""
    whole, count = agent_transfer.transfer_agent, 0

    async def breaks(connector: Any, days: Any, connection: Any, *rest: Any) -> None:
        nonlocal count
        count += 1
        cut = Cut(connection, connector.sql[statement]) if count == 3 else connection
        await whole(connector, days, cut, *rest)

    monkeypatch.setattr("everyword.log.postgres.store.transfer_agent", breaks)
    code, _, err = say(capsys, "copy", str(stored), postgres_url)
    assert code == 2
    assert "unable to copy 'chat/" in err
    listed = json.loads(say(capsys, "ls", "--json", "--db", postgres_url)[1])
    assert len(listed) == 2
    again = json.loads(say(capsys, "copy", str(stored), postgres_url, "--json")[1])
    assert (again["copied"], again["present"], again["isSame"]) == (2, 2, True)
    assert (
        exports(capsys, str(stored), *AGENTS)[0].splitlines()[1:-1]
        == (exports(capsys, postgres_url, *AGENTS)[0].splitlines()[1:-1])
    )


async def test_reports_of_erasures_are_copied_and_one_that_was_cut_off_goes_on_in_the_database(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls, file = speaker(), str(tmp_path / "log.db")
    async with chat(cls, store=file) as app:
        for who in ("ann", "bob"):
            await app.get(cls, f"of-{who}").for_principal(Principal(who)).save_messages("hi")
        done = await app.principals.erase("ann")
        erasure = (await app.service()).directory.store.erasure
        assert erasure is not None
        monkeypatch.setattr(erasure, "rename_destroyed", unavailable)
        assert not (await app.principals.erase("bob")).is_complete
    assert await asyncio.to_thread(main, ["copy", file, postgres_url]) == 0
    async with chat(cls, store=postgres_url) as app:
        await eventually(lambda: all_complete(app, 2))
        assert done.id in {each.id for each in await app.principals.erasures()}
        assert "bob" not in repr(await app.principals.erasures())


async def unavailable(*given: Any) -> None:
    raise LogUnavailable("unable to write; the disk is full")


async def all_complete(app: Everyword, count: int) -> bool:
    return [each.is_complete for each in await app.principals.erasures()] == [True] * count


async def test_a_copy_that_is_killed_can_be_made_again_at_once(
    stored: Path, postgres_url: str, capsys: Captured
) -> None:
    script = "import os, everyword.log.postgres.store as store\n"
    script += "whole, count = store.transfer_agent, []\n"
    script += "async def dies(*given):\n    count.append(1)\n    if len(count) == 3:\n        os._exit(9)\n"
    script += "    await whole(*given)\n"
    script += "store.transfer_agent = dies\nfrom everyword.cli import main\n"
    script += f"main(['copy', {str(stored)!r}, {postgres_url!r}])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await process.wait() == 9
    code, out, _ = await asyncio.to_thread(say, capsys, "copy", str(stored), postgres_url)
    assert code == 0
    assert "2 agents had been copied before: both stores have the same logs" in out


def test_a_database_with_another_agent_of_the_same_name_is_refused(
    stored: Path, postgres_url: str, capsys: Captured
) -> None:
    async def converse() -> None:
        async with chat(speaker(), store=postgres_url) as app:
            await app.get(next(iter(app.classes.values())), "dan").save_messages("I am another one")

    asyncio.run(converse())
    code, _, err = say(capsys, "copy", str(stored), postgres_url)
    assert code == 2
    assert "it has 1 agent of the same name with another log: 'chat/dan' (event 1 is another one)" in err
    assert "Nothing was copied" in err
    assert len(json.loads(say(capsys, "ls", "--json", "--db", postgres_url)[1])) == 1


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("delete from {}.event where kind = 'turn.ended'", r"is missing"),
        ("update {}.event set at = at + 1 where kind = 'turn.ended'", r"is another one"),
        ("delete from {}.event where seq > 2", r"is missing, and all behind it"),
    ],
)
def test_a_copy_that_was_changed_is_found(
    statement: str, difference: str, stored: Path, postgres_url: str, capsys: Captured
) -> None:
    assert say(capsys, "copy", str(stored), postgres_url)[0] == 0
    asyncio.run(execute(postgres_url, statement))
    code, _, err = say(capsys, "copy", str(stored), postgres_url)
    assert code == 2
    assert difference in err


def test_a_difference_that_appears_while_copying_is_reported(
    stored: Path, postgres_url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = PostgresLog.put_agent

    async def put_and_damage(self: PostgresLog, given: agent_transfer.TransferredAgent) -> None:
        await put(self, given)
        if given.agent == "chat/bob":
            await execute(
                postgres_url,
                "delete from {}.event e using {}.agent a where a.key = e.agent "
                "and a.id = 'chat/bob' and e.kind = 'turn.ended'",
            )

    monkeypatch.setattr(PostgresLog, "put_agent", put_and_damage)
    code, out, _ = say(capsys, "copy", str(stored), postgres_url)
    assert code == 1
    assert "✗ chat/bob: event " in out
    assert "copied: 1 agent differ from the file" in out


def test_a_file_that_a_server_uses_is_not_copied(stored: Path, postgres_url: str, capsys: Captured) -> None:
    lock = FileLock(str(stored.resolve()))
    lock.acquire(1.0, threading.Event())
    try:
        code, _, err = say(capsys, "copy", str(stored), postgres_url)
    finally:
        lock.release()
    assert code == 3
    assert "is using it. Stop it first" in err


def test_an_agent_that_another_node_owns_is_named(stored: Path, postgres_url: str, capsys: Captured) -> None:
    async def beside_a_node() -> tuple[int, str, str]:
        async with owned(postgres_url, "chat/ann"):
            return await asyncio.to_thread(say, capsys, "copy", str(stored), postgres_url)

    code, _, err = asyncio.run(beside_a_node())
    assert code == 3
    assert "unable to copy 'chat/ann'; node 'web-1' at 10.0.0.1:4000 owns it" in err
    assert say(capsys, "copy", str(stored), postgres_url)[0] == 0


@pytest.mark.parametrize(
    "given", [("a.db", "b.db"), ("postgresql:///a", "b.db"), ("postgresql:///a", "postgresql:///b")]
)
def test_only_a_file_is_copied_and_only_into_a_database(given: tuple[str, str], capsys: Captured) -> None:
    code, _, err = say(capsys, "copy", *given)
    assert code == 2
    assert "use `everyword export` and `everyword import`" in err


class Note(Agent):
    pass


class Chat(AIChatAgent):
    pass


def test_sub_agents_and_own_databases_are_copied(tmp_path: Path, postgres_url: str, capsys: Captured) -> None:
    path = tmp_path / "log.db"

    async def fill() -> None:
        async with Everyword([Chat, Note], store=str(path)) as app:
            ann = await loaded_agent(app.get(Chat, "ann"))
            await ann.set_state("ann")
            await ann.sql("create table t (x)")
            await ann.sql("insert into t values (1), (2)")
            await (await ann.sub_agent(Note, "kid")).set_state(1)

    asyncio.run(fill())
    said = json.loads(say(capsys, "copy", str(path), postgres_url, "--json")[1])
    assert (said["copied"], said["databases"], said["isSame"]) == (2, 1, True)
    shown = json.loads(say(capsys, "show", "chat/ann", "--json", "--db", postgres_url)[1])
    assert len(shown["children"]) == 1

    async def look() -> None:
        async with Everyword([Chat, Note], store=postgres_url) as app:
            ann = await loaded_agent(app.get(Chat, "ann"))
            assert await ann.sql("select x from t") == [{"x": 1}, {"x": 2}]
            await ann.sql("insert into t values (3)")
            assert await ann.sql("select count(*) as n from t") == [{"n": 3}]

    asyncio.run(look())
    code, out, _ = say(capsys, "copy", str(path), postgres_url)
    assert code == 0
    assert "2 agents had been copied before" in out


def test_a_database_that_differs_is_reported(
    tmp_path: Path, postgres_url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, put = tmp_path / "log.db", PostgresLog.put_agent

    async def fill() -> None:
        async with Everyword([Chat], store=str(path)) as app:
            ann = await loaded_agent(app.get(Chat, "ann"))
            await ann.set_state("ann")
            await ann.sql("create table t (x)")

    async def put_and_damage(self: PostgresLog, given: agent_transfer.TransferredAgent) -> None:
        await put(self, given)
        await execute(postgres_url, "update {}.page set body = set_byte(body, 100, 9) where number = 1")

    asyncio.run(fill())
    monkeypatch.setattr(PostgresLog, "put_agent", put_and_damage)
    code, out, _ = say(capsys, "copy", str(path), postgres_url)
    assert code == 1
    assert "✗ chat/ann: its own SQL database differs" in out


def test_progress_is_shown_on_a_terminal(stored: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Tty()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["copy", str(stored), postgres_url]) == 0
    assert "copying" in terminal.getvalue()


def test_an_unreachable_database_changes_nothing(stored: Path, capsys: Captured) -> None:
    code, _, err = say(capsys, "copy", str(stored), "postgresql://ann:Sesame42@127.0.0.1:1/words")
    assert code == 2
    assert "unable to reach postgresql://127.0.0.1:1/words" in err
    assert "Sesame42" not in err
