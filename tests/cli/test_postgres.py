"""Commands on a PostgreSQL database: the same output as for a file with the same content; writers take leases."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from everyword.cli import main
from everyword.cli.commands.tail import tail
from everyword.cli.output import Output
from everyword.cli.parser import make_parser
from everyword.cli.postgres_reader import PostgresReader, is_connection_lost
from everyword.errors import LogUnavailable
from everyword.ids import Millis
from everyword.runtime.clock import SystemClock
from tests.cli.kit import Paper, execute, owned, speaker
from tests.postgres.server import OwnPostgres, Postgres
from tests.server.kit import chat

Captured = pytest.CaptureFixture[str]
AGENTS = ("chat/ann", "chat/bob", "chat/dan", "chat/cid")
NOW = Millis(2_000_000_000_000)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the commands: ages and times of exports are part of their output."""
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)


@pytest.fixture
def both(stored: Path, tmp_path: Path, postgres_url: str, capsys: Captured) -> tuple[str, str]:
    """A file and a database with the same content: the agents of `stored`, imported in the same order."""
    file = str(tmp_path / "imported.db")
    for agent in AGENTS:
        path = f"{agent.replace('/', '-')}.everyword"
        assert main(["export", agent, "-o", path, "--with-details", "--db", str(stored)]) == 0
        for db in (file, postgres_url):
            assert main(["import", path, "--db", db]) == 0
    capsys.readouterr()
    return file, postgres_url


def say(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(
    "arguments",
    [
        ("ls",),
        ("ls", "--json"),
        ("ls", "--failed", "--sort", "name"),
        ("show", "chat/ann"),
        *(("show", agent, "--json") for agent in AGENTS),
        ("show", "ann", "--all"),
        ("show", "bob", "--turns"),
        ("export", "chat/ann", "-o", "-"),
        ("export", "chat/cid", "-o", "-", "--with-details"),
        ("replay", "chat/ann", "--json"),
        ("replay", "chat/ann", "1", "--as", "reconnecting", "--at", "1"),
        ("replay", "chat/cid", "--text"),
        ("tail", "chat/ann", "--until-idle"),
        ("tail", "chat/dan", "--after", "0", "--until-idle", "--json"),
        ("doctor", "--no-app"),
        ("gc", "--dry-run", "--keep", "0s"),
    ],
    ids=" ".join,
)
def test_a_command_prints_the_same_for_a_file_and_a_database(
    arguments: tuple[str, ...], both: tuple[str, str], capsys: Captured
) -> None:
    of_file, of_database = (say(capsys, *arguments, "--db", db) for db in both)
    assert of_database[:2] == of_file[:2]
    assert of_file[1]


async def owner(url: str, agent: str) -> int | None:
    server, _, schema = url.rpartition("&schema=")
    connection = await asyncpg.connect(server)
    try:
        found: int | None = await connection.fetchval(f"select node from {schema}.agent where id = $1", agent)
        return found
    finally:
        await connection.close()


def test_an_agent_goes_to_a_database_and_back_without_a_change(both: tuple[str, str], capsys: Captured) -> None:
    file, url = both
    assert say(capsys, "export", "ann", "-o", "back.everyword", "--with-details", "--db", url)[0] == 0
    assert say(capsys, "import", "back.everyword", "--db", "back.db")[0] == 0
    shown = [say(capsys, "show", "ann", "--json", "--db", db)[1] for db in (file, "back.db")]
    assert shown[0] == shown[1]


def test_importing_twice_changes_nothing(both: tuple[str, str], capsys: Captured) -> None:
    code, out, _ = say(capsys, "import", "chat-ann.everyword", "--db", both[1])
    assert (code, out) == (0, "chat/ann: exists already, nothing written\n")


def test_an_agent_that_was_imported_has_no_owner(both: tuple[str, str]) -> None:
    assert asyncio.run(owner(both[1], "chat/ann")) is None


def test_a_conversation_is_forked_in_a_database(both: tuple[str, str], capsys: Captured) -> None:
    said = [say(capsys, "fork", "chat/dan", "dan-2", "--db", db) for db in both]
    assert said[0][:2] == said[1][:2]
    assert said[1][0] == 0
    assert "chat/dan-2" in say(capsys, "ls", "--db", both[1])[1]


def test_an_agent_is_destroyed_in_a_database(both: tuple[str, str], capsys: Captured) -> None:
    said = [say(capsys, "destroy", "chat", "bob", "--yes", "--db", db) for db in both]
    assert said[0][:2] == said[1][:2] == (0, "deleted chat/bob\n")
    listed = json.loads(say(capsys, "ls", "--json", "--db", both[1])[1])
    assert sorted(each["agent"] for each in listed) == ["chat/ann", "chat/cid", "chat/dan"]


def test_the_doctor_finds_rows_that_differ_and_repairs_them(both: tuple[str, str], capsys: Captured) -> None:
    _, url = both
    asyncio.run(
        execute(
            url,
            "delete from {}.message m using {}.agent a where a.key = m.agent and a.id = 'chat/ann' and m.node = 1",
            "delete from {}.wake",
        )
    )
    code, out, _ = say(capsys, "doctor", "--no-app", "--db", url)
    assert code == 1
    assert "chat/ann: the message at node 1 has no row" in out
    assert "while no node has the agent loaded" in out
    code, out, _ = say(capsys, "doctor", "--no-app", "--fix", "--db", url)
    assert code == 0
    assert "chat/ann: repaired" in out
    assert asyncio.run(owner(url, "chat/ann")) is None


def test_the_doctor_finds_rows_without_an_agent(both: tuple[str, str], capsys: Captured) -> None:
    asyncio.run(execute(both[1], "insert into {}.wake values (987654, 1)"))
    code, out, _ = say(capsys, "doctor", "--no-app", "--db", both[1])
    assert code == 1
    assert "the database: 1 rows of the table 'wake' belong to no agent" in out


def test_tables_are_rebuilt_from_the_log(both: tuple[str, str], capsys: Captured) -> None:
    file, url = both
    before = say(capsys, "show", "ann", "--json", "--db", file)[1]
    asyncio.run(execute(url, "delete from {}.turn", "delete from {}.message", "delete from {}.kept"))
    code, out, _ = say(capsys, "rebuild", "--db", url)
    assert code == 0
    assert "4 changed, 0 failed" in out
    after = json.loads(say(capsys, "show", "ann", "--json", "--db", url)[1])
    assert {**after, "epoch": 1} == json.loads(before)


def test_gc_deletes_chunks_and_the_doctor_does_not_miss_them(both: tuple[str, str], capsys: Captured) -> None:
    said = [json.loads(say(capsys, "gc", "--keep", "0s", "--json", "--db", db)[1]) for db in both]
    assert [each["chunks"] for each in said] == [said[0]["chunks"]] * 2
    assert said[0]["chunks"]
    assert json.loads(say(capsys, "gc", "--keep", "0s", "--dry-run", "--json", "--db", both[1])[1])["chunks"] == 0
    assert say(capsys, "doctor", "--no-app", "--db", both[1])[0] == 0


def test_the_doctor_does_not_miss_states_that_retention_deleted(postgres_url: str, capsys: Captured) -> None:
    async def set_states() -> None:
        async with chat(speaker(), store=postgres_url) as app:
            ann = app.get(next(iter(app.classes.values())), "ann")
            for value in range(3):
                await ann.set_state(value)

    asyncio.run(set_states())
    assert json.loads(say(capsys, "gc", "--keep", "0s", "--json", "--db", postgres_url)[1])["states"] == 2
    code, out, _ = say(capsys, "doctor", "--no-app", "--db", postgres_url)
    assert (code, out) == (0, "1 agent, 0 turns, 1 event: no problems found\n")


def test_a_database_is_not_shrunk(both: tuple[str, str], capsys: Captured) -> None:
    code, _, err = say(capsys, "gc", "--shrink", "--db", both[1])
    assert code == 2
    assert "unable to shrink a PostgreSQL database" in err


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        (("destroy", "chat", "ann", "--yes"), "destroy"),
        (("rebuild", "ann"), "rebuild"),
        (("import", "chat-ann.everyword"), None),
        (("ls",), None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_agent_of_another_node_is_left_alone(
    arguments: tuple[str, ...], task: str | None, both: tuple[str, str], capsys: Captured
) -> None:
    async def beside_a_node() -> tuple[int, str, str]:
        async with owned(both[1], "chat/ann"):
            return await asyncio.to_thread(say, capsys, *arguments, "--db", both[1])

    code, out, err = asyncio.run(beside_a_node())
    sentence = f"unable to {task} 'chat/ann'; node 'web-1' at 10.0.0.1:4000 owns it. Try again when"
    assert code == {"destroy": 3, "rebuild": 1, None: 0}[task]
    assert (sentence in out + err) is (task is not None)


@pytest.mark.parametrize("arguments", [("fork", "ann", "new"), ("import", "chat-ann.everyword", "--as", "chat/new")])
def test_a_new_agent_that_another_node_has_open_is_not_written(
    arguments: tuple[str, ...], both: tuple[str, str], capsys: Captured
) -> None:
    async def beside_a_node() -> tuple[int, str, str]:
        async with owned(both[1], "chat/new"):
            return await asyncio.to_thread(say, capsys, *arguments, "--db", both[1])

    code, _, err = asyncio.run(beside_a_node())
    task = "fork into" if arguments[0] == "fork" else "import"
    assert code == 3
    assert err == (
        f"everyword: unable to {task} 'chat/new'; node 'web-1' at 10.0.0.1:4000 owns it. Try again when the agent has "
        "been idle there for a minute, or stop that node\n"
    )
    assert say(capsys, *arguments, "--db", both[1])[0] == 0


def test_a_server_on_another_node_makes_agents_served(both: tuple[str, str], capsys: Captured) -> None:
    async def beside_a_node() -> tuple[int, str, str]:
        async with chat(speaker(), store=both[1]):
            return await asyncio.to_thread(say, capsys, "ls", "--db", both[1])

    assert "no server is running" in say(capsys, "ls", "--db", both[1])[2]
    assert "a server is running" in asyncio.run(beside_a_node())[2]


async def test_a_conversation_is_followed_while_it_grows(postgres_url: str) -> None:
    async with chat(speaker(), store=postgres_url) as app:
        ann = app.get(next(iter(app.classes.values())), "ann")
        await ann.save_messages("hello")
        out = Paper()
        chosen = make_parser().parse_args(["tail", "chat/ann", "--db", postgres_url])
        following = asyncio.create_task(tail(Output(out=out), chosen))
        await out.until("Hello, you there")
        await ann.save_messages("and again")
        await out.until("and again(?s:.*)Hello, you there")
        following.cancel()
        await asyncio.wait([following])
        assert following.cancelled()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_conversation_is_followed_across_a_restart_of_postgresql(own_postgres: OwnPostgres, mode: Any) -> None:
    async with chat(speaker(), store=own_postgres.url) as app:
        await app.get(next(iter(app.classes.values())), "ann").save_messages("hello")
    out, err = Paper(), Paper()
    chosen = make_parser().parse_args(["tail", "chat/ann", "--db", own_postgres.url])
    following = asyncio.create_task(tail(Output(out=out, err=err), chosen))
    await out.until("Hello, you there")
    await own_postgres.stop(mode)
    await err.until("unable to (read|reach) .*Going on from here when it can be read again")
    await own_postgres.start()
    async with chat(speaker(), store=own_postgres.url) as app:
        await app.get(next(iter(app.classes.values())), "ann").save_messages("and again")
    await out.until("and again(?s:.*)Hello, you there")
    assert not following.done()
    following.cancel()
    await asyncio.wait([following])
    assert out.getvalue().count("and again") == out.getvalue().count("hello") == 1
    assert err.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    "exc", [asyncpg.ConnectionDoesNotExistError("closed"), asyncpg.AdminShutdownError("stops"), ConnectionResetError()]
)
async def test_a_connection_that_is_lost_while_it_is_opened_is_tried_again(
    exc: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*given: object, **options: object) -> None:
        raise exc

    monkeypatch.setattr(asyncpg, "connect", connect)
    with pytest.raises(LogUnavailable) as raised:
        await PostgresReader("postgresql:///everyword").open()
    assert is_connection_lost(raised.value)


async def test_a_reader_whose_schema_is_dropped_ends(postgres_url: str) -> None:
    async with chat(speaker(), store=postgres_url) as app:
        await app.get(next(iter(app.classes.values())), "ann").save_messages("hello")
    out = Paper()
    chosen = make_parser().parse_args(["tail", "chat/ann", "--db", postgres_url])
    following = asyncio.create_task(tail(Output(out=out), chosen))
    await out.until("Hello, you there")
    await execute(postgres_url, "drop schema {} cascade")
    with pytest.raises(LogUnavailable, match="does not exist"):
        await following


async def test_a_reader_cannot_write(both: tuple[str, str]) -> None:
    for pooler in ("", "&pooler=transaction"):
        reader = PostgresReader(both[1] + pooler)
        reader._sql["write"] = f"delete from {both[1].rpartition('=')[2]}.wake"
        with pytest.raises(LogUnavailable, match="read-only transaction"):
            await reader._fetch("write", "write")
        await reader.aclose()


@pytest.mark.parametrize("command", [("ls",), ("show", "x"), ("destroy", "chat/x", "--yes"), ("gc",), ("rebuild",)])
def test_a_database_without_tables_is_said_to_have_none(
    command: tuple[str, ...], postgres_url: str, capsys: Captured
) -> None:
    code, _, err = say(capsys, *command, "--db", postgres_url)
    assert code == 2
    assert "it has no everyword tables" in err


@pytest.mark.parametrize(
    "command", [("ls",), ("show", "nobody"), ("doctor", "--no-app", "--json"), ("ls", "--json"), ("tail", "nobody")]
)
def test_no_command_shows_the_password(
    command: tuple[str, ...], both: tuple[str, str], postgres_server: Postgres, capsys: Captured
) -> None:
    url, schema = postgres_server.tcp_url, both[1].rpartition("=")[2]
    password = urlsplit(url).password
    _, out, err = say(capsys, *command, "--db", f"{url}{'&' if '?' in url else '?'}schema={schema}")
    assert password
    assert password not in out + err
    assert out + err


@pytest.mark.parametrize("password", ["Ses/ame42", "Ses?ame42", "Ses#ame42", "4/2ame"])
def test_a_password_that_is_not_escaped_is_not_shown_either(password: str, capsys: Captured) -> None:
    code, out, err = say(capsys, "ls", "--db", f"postgresql://ann:{password}@localhost/words")
    assert code == 2
    assert "Write them as %2F, %3F and %23" in err
    assert "ame" not in (out + err).replace("name", "")


def test_another_kind_of_store_is_refused_without_its_address(capsys: Captured) -> None:
    code, _, err = say(capsys, "ls", "--db", "mysql://ann:Sesame42@localhost/words")
    assert code == 2
    assert "unable to use 'mysql://…'; commands work on SQLite files and PostgreSQL databases" in err
