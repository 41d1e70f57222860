"""A PostgreSQL store that cannot be used: one sentence that says what to do, from commands, apps and servers."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from everyword import Everyword
from everyword.cli import main
from everyword.errors import EverywordError, LogError, LogTooNew, LogUnavailable, UsageError
from everyword.log.postgres.store import PostgresLog
from tests.cli.kit import running, speaker
from tests.free_ports import free_port
from tests.postgres.server import Postgres
from tests.server.kit import chat

Captured = pytest.CaptureFixture[str]


async def refused(url: str, capsys: Captured) -> EverywordError:
    """Return the error of a store that cannot be opened. `everyword ls` says the same, without a traceback."""
    store = PostgresLog(url, patience=0.0)
    with pytest.raises(EverywordError) as raised:
        await store.open()
    capsys.readouterr()
    assert await asyncio.to_thread(main, ["ls", "--db", url]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"everyword: {raised.value}\n" in said.err
    return raised.value


async def test_a_wrong_password(postgres_server: Postgres, capsys: Captured) -> None:
    port = postgres_server.address[1]
    why = await refused(f"postgresql://everyword:Sesame42@127.0.0.1:{port}/everyword", capsys)
    assert type(why) is LogError
    assert str(why) == (
        f"unable to open postgresql://127.0.0.1:{port}/everyword; password authentication failed for user "
        '"everyword". Check the user and the password in `store=`'
    )


async def test_no_such_role(postgres_server: Postgres, capsys: Captured) -> None:
    why = await refused(postgres_server.url.replace("everyword@", "nobody@", 1), capsys)
    assert 'role "nobody" does not exist. Check the user and the password' in str(why)


async def test_no_such_database(postgres_server: Postgres, capsys: Captured) -> None:
    why = await refused(postgres_server.url.replace("@/everyword", "@/words"), capsys)
    assert type(why) is LogError
    assert 'database "words" does not exist. Create the database first: `createdb`' in str(why)


async def test_a_server_that_is_not_there(capsys: Captured) -> None:
    port = free_port()
    why = await refused(f"postgresql://ann:Sesame42@127.0.0.1:{port}/words", capsys)
    assert type(why) is LogUnavailable
    assert str(why).startswith(f"unable to reach postgresql://127.0.0.1:{port}/words; ")
    assert str(why).endswith("Check that PostgreSQL runs and its address")
    assert "Sesame42" not in str(why)


async def test_a_host_that_has_no_address(capsys: Captured) -> None:
    why = await refused("postgresql://ann@db.invalid/words", capsys)
    assert re.match(r"unable to reach postgresql://db.invalid/words; .+\. Check that PostgreSQL runs", str(why))


@pytest.mark.parametrize("port", ["seven", "99999999"])
async def test_an_address_that_cannot_be_read(port: str, capsys: Captured) -> None:
    why = await refused(f"postgresql://ann:Sesame42@localhost:{port}/words", capsys)
    assert "unable to" in str(why)
    assert "Sesame42" not in str(why)


@asynccontextmanager
async def role(server: Postgres, *rights: str) -> AsyncIterator[str]:
    """Make a role that may log in, and a database that it may connect to; yield its URL."""
    name = f"r_{uuid4().hex[:12]}"
    admin = await server.connect()
    try:
        await admin.execute(f"create role {name} login")
        for right in rights:
            await admin.execute(right.format(name))
        yield server.url.replace("everyword@", f"{name}@", 1)
        await admin.execute(f"drop owned by {name}")
        await admin.execute(f"drop role {name}")
    finally:
        await admin.close()


async def test_a_role_that_may_not_create_the_schema(postgres_server: Postgres, postgres_url: str) -> None:
    schema = postgres_url.rpartition("=")[2]
    async with role(postgres_server) as url:
        with pytest.raises(LogError) as raised:
            await PostgresLog(f"{url}&schema={schema}", patience=0.0).open()
    assert f"unable to make the schema '{schema}'" in str(raised.value)
    assert "Grant CREATE on the database to the role, or create the schema for it: create schema" in str(raised.value)


async def test_a_schema_that_was_made_for_a_role_is_enough(postgres_server: Postgres, postgres_url: str) -> None:
    schema = postgres_url.rpartition("=")[2]
    async with role(postgres_server, f"create schema {schema} authorization {{}}") as url:
        store = PostgresLog(f"{url}&schema={schema}", patience=0.0)
        await store.open()
        assert await store.agents() == []
        await store.aclose()


async def test_a_role_that_may_not_read(postgres_server: Postgres, postgres_url: str, capsys: Captured) -> None:
    store = PostgresLog(postgres_url)
    await store.open()
    await store.aclose()
    schema = postgres_url.rpartition("=")[2]
    async with role(postgres_server) as url:
        url = f"{url}&schema={schema}"
        with pytest.raises(LogError, match=f"permission denied for schema {schema}. Use the role that owns the schema"):
            await PostgresLog(url, patience=0.0).open()
        assert await asyncio.to_thread(main, ["ls", "--db", url]) == 2
    said = capsys.readouterr().err
    assert f"permission denied for schema {schema}. Use the role that owns the schema, or let this one read" in said
    assert f'grant usage on schema "{schema}"' in said


async def test_a_role_that_may_read_is_enough_for_commands_that_read(
    postgres_server: Postgres, postgres_url: str, capsys: Captured
) -> None:
    store = PostgresLog(postgres_url)
    await store.open()
    await store.aclose()
    schema = postgres_url.rpartition("=")[2]
    rights = f"grant usage on schema {schema} to {{}}", f"grant select on all tables in schema {schema} to {{}}"
    async with role(postgres_server, *rights) as url:
        for command in ("ls", "doctor"):
            assert await asyncio.to_thread(main, [command, "--db", f"{url}&schema={schema}"]) == 0
        assert await asyncio.to_thread(main, ["nodes", f"{url}&schema={schema}"]) == 0
    assert "no node uses" in capsys.readouterr().out


async def test_a_postgresql_that_is_too_old(
    postgres_url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = SimpleNamespace(major=13, minor=9)
    monkeypatch.setattr(asyncpg.Connection, "get_server_version", lambda self: old)
    why = await refused(postgres_url, capsys)
    assert type(why) is LogError
    assert str(why).endswith("it is PostgreSQL 13, and 14 is the oldest that works. Upgrade the server")


async def test_a_schema_of_a_newer_everyword(postgres_url: str, capsys: Captured) -> None:
    store = PostgresLog(postgres_url)
    await store.open()
    await store.aclose()
    server, _, schema = postgres_url.rpartition("&schema=")
    connection = await asyncpg.connect(server)
    await connection.execute(f"update {schema}.store set version = 99, oldest = 98")
    await connection.close()
    why = await refused(postgres_url, capsys)
    assert type(why) is LogTooNew
    assert "its schema has version 99, and this everyword knows" in str(why)
    assert str(why).endswith("Upgrade everyword, or use another `schema=`")


@pytest.mark.parametrize("command", [("ls",), ("import", "some.everyword"), ("nodes",), ("destroy", "a/b", "--yes")])
def test_a_driver_that_is_not_installed(
    command: tuple[str, ...], capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stored: Path
) -> None:
    assert main(["export", "ann", "-o", "some.everyword", "--db", str(stored)]) == 0
    _without_driver(monkeypatch)
    capsys.readouterr()
    url = "postgresql://ann:Sesame42@localhost/words"
    assert main([command[0], url] if command == ("nodes",) else [*command, "--db", url]) == 2
    said = capsys.readouterr().err
    assert "asyncpg is missing. Install what the extra 'postgres' needs: pip install asyncpg" in said
    assert "Sesame42" not in said


async def test_an_app_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_driver(monkeypatch)
    with pytest.raises(UsageError, match="asyncpg is missing"):
        await chat(speaker(), store="postgresql://ann@localhost/words").start()


def _without_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for name in list(sys.modules):
        if name.startswith("everyword.log.postgres.") or name == "everyword.cli.postgres_reader":
            monkeypatch.delitem(sys.modules, name)


# -- servers -----------------------------------------------------------------------------------------------------------

APP = """
from everyword import AIChatAgent, Everyword

class Chat(AIChatAgent):
    async def on_chat_message(self, turn):
        yield "ahoy"

app = Everyword([Chat])
"""


async def test_a_server_that_cannot_open_its_database_says_why(postgres_server: Postgres, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    url = f"postgresql://everyword:Sesame42@127.0.0.1:{postgres_server.address[1]}/everyword"
    async with running("serve", "app.py", "--port", "0", "--store", url, folder=tmp_path) as server:
        await server.until(r"Check the user and the password in `store=`")
        assert await server.ended() == 1
        assert "Sesame42" not in server.said
        assert "Traceback" not in server.said


async def test_a_server_says_which_node_it_is(postgres_server: Postgres, postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    password, schema = urlsplit(postgres_server.tcp_url).password, postgres_url.rpartition("=")[2]
    mark = "&" if "?" in postgres_server.tcp_url else "?"
    url = f"{postgres_server.tcp_url}{mark}schema={schema}"
    async with running("serve", "app.py", "--port", "0", "--store", url, folder=tmp_path) as server:
        await server.until(r"serves app.py at http://localhost:\d+")
        where = rf"postgresql://127.0.0.1:\d+/everyword\?schema={schema}"
        await server.until(
            rf"node '\S+', incarnation \d+, takes links of other nodes at 127.0.0.1:\d+; its store is {where}\n"
        )
        assert password
        assert password not in server.said


async def test_the_demo_runs_on_a_database(postgres_url: str, tmp_path: Path) -> None:
    async with running("dev", "--port", "0", "--store", postgres_url, folder=tmp_path) as server:
        await server.until(r"Database  postgresql://\S+")
    assert not (tmp_path / "everyword.db").exists()


async def test_a_store_cannot_be_given_to_several_apps(tmp_path: Path) -> None:
    both = "from starlette.applications import Starlette\nfrom starlette.routing import Mount\n"
    both += APP + '\nrouted = Starlette(routes=[Mount("/a", app), Mount("/b", Everyword([Chat]))])\n'
    (tmp_path / "app.py").write_text(both, encoding="utf-8")
    async with running("serve", "app.py:routed", "--port", "0", "--store", "x.db", folder=tmp_path) as server:
        await server.until("unable to use --store; app.py:routed has 2 Everyword apps")
        assert await server.ended() == 2


async def test_no_text_about_an_app_has_its_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app: Any = chat(speaker(), store="postgresql://ann:Sesame42@localhost:1/words?schema=chat")
    assert isinstance(app, Everyword)
    assert app.where == "postgresql://localhost:1/words?schema=chat"
    assert app.node is None
