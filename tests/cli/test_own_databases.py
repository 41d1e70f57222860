"""The agents' own SQL databases go along when agents are exported and imported, between files and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from everyword import Agent, AIChatAgent, Everyword
from everyword.cli import main
from everyword.cli.agent_file import DATABASE_PART, pack, unpack
from everyword.cli.database_image import check_image, image_from
from everyword.errors import BadInput
from everyword.ids import AgentId
from tests.loaded_agents import loaded_agent

Captured = pytest.CaptureFixture[str]


class Note(Agent):
    pass


class Chat(AIChatAgent):
    pass


@pytest.fixture(params=["file", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with an agent, which has a database, and a sub-agent, which has another one."""
    monkeypatch.chdir(tmp_path)
    store = "source.db" if request.param == "file" else str(request.getfixturevalue("postgres_url"))
    asyncio.run(fill(store))
    return store


async def fill(store: str) -> None:
    async with Everyword([Chat, Note], store=store) as app:
        ann = await loaded_agent(app.get(Chat, "ann"))
        await ann.set_state("ann")
        await ann.sql("create table t (x)")
        await ann.sql("insert into t values (1), (2)")
        await (await ann.sub_agent(Note, "kid")).set_state(1)
        kid = await loaded_agent(await ann.sub_agent(Note, "kid"))
        await kid.sql("create virtual table word using fts5 (text)")
        await kid.sql("insert into word values ('tea and milk')")
        await (await loaded_agent(app.get(Chat, "bob"))).set_state("bob")


async def look(store: str, name: str, *more: int) -> None:
    """Check what the databases have, and that they can be written."""
    async with Everyword([Chat, Note], store=store) as app:
        ann = await loaded_agent(app.get(Chat, name))
        assert await ann.sql("select x from t") == [{"x": x} for x in (1, 2, *more)]
        await ann.sql("insert into t values (?)", 3 + len(more))
        assert await ann.sql("pragma integrity_check") == [{"integrity_check": "ok"}]
        kid = await loaded_agent(await ann.sub_agent(Note, "kid"))
        assert await kid.sql("select text from word where word match 'milk'") == [{"text": "tea and milk"}]


def say(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("target", ["file", "postgres"])
def test_databases_are_exported_and_imported(
    source: str, target: str, request: pytest.FixtureRequest, capsys: Captured
) -> None:
    store = "target.db" if target == "file" else str(request.getfixturevalue("postgres_url"))
    code, out, _ = say(capsys, "export", "chat/ann", "--db", source)
    assert (code, "2 SQL databases" in out) == (0, True)
    into = ("import", "chat-ann.everyword.gz", "--as", "chat/zed", "--db", store)
    code, out, _ = say(capsys, *into)
    assert (code, "2 SQL databases written" in out) == (0, True)
    asyncio.run(look(store, "zed"))
    said = json.loads(say(capsys, *into, "--json")[1])
    assert (said["events"], said["databases"]) == (0, 0)
    asyncio.run(look(store, "zed", 3))  # what the agent has written since is still there
    asyncio.run(look(source, "ann"))


def test_an_agent_without_a_database_is_in_a_file_that_older_releases_read(source: str, capsys: Captured) -> None:
    assert say(capsys, "export", "chat/bob", "-o", "bob.jsonl", "--db", source)[0] == 0
    assert json.loads(Path("bob.jsonl").read_text().splitlines()[0])["version"] == 1
    assert say(capsys, "export", "chat/ann", "-o", "ann.jsonl", "--db", source)[0] == 0
    assert json.loads(Path("ann.jsonl").read_text().splitlines()[0])["version"] == 2


def test_a_file_is_exported_while_its_agent_writes(tmp_path: Path, capsys: Captured) -> None:
    store = str(tmp_path / "source.db")
    asyncio.run(fill(store))

    async def beside_a_server() -> tuple[int, str, str]:
        async with Everyword([Chat, Note], store=store) as app:
            ann = await loaded_agent(app.get(Chat, "ann"))
            await ann.sql("insert into t values (3)")
            arguments = ("export", "ann", "-o", str(tmp_path / "ann.jsonl"), "--db", store)
            said = await asyncio.to_thread(say, capsys, *arguments)
            await ann.sql("insert into t values (4)")
            return said

    assert asyncio.run(beside_a_server())[0] == 0
    other = str(tmp_path / "other.db")
    assert say(capsys, "import", str(tmp_path / "ann.jsonl"), "--db", other)[0] == 0
    asyncio.run(look(other, "ann", 3))


def test_an_import_that_was_interrupted_writes_the_database_again(
    source: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert say(capsys, "export", "chat/ann", "-o", "ann.jsonl", "--db", source)[0] == 0
    into = ("import", "ann.jsonl", "--db", "target.db")
    with monkeypatch.context() as patched:
        patched.setattr("everyword.cli.agent_copy._batches", interrupt)
        assert say(capsys, *into)[0] == 130
    assert len(list(Path("target.db.agents").rglob("*.db"))) == 1
    assert "2 SQL databases written" in say(capsys, *into)[1]
    asyncio.run(look("target.db", "ann"))


def interrupt(*given: object) -> Any:
    raise KeyboardInterrupt


def test_a_database_that_is_too_large_is_refused(source: str, postgres_url: str, capsys: Captured) -> None:
    async def grow() -> None:
        async with Everyword([Chat, Note], store=source) as app:
            await (await loaded_agent(app.get(Chat, "ann"))).sql("insert into t values (zeroblob(2000000))")

    asyncio.run(grow())
    assert say(capsys, "export", "chat/ann", "--db", source)[0] == 0
    into = ("import", "chat-ann.everyword.gz", "--as", "chat/zed", "--db")
    code, _, err = say(capsys, *into, f"{postgres_url}&sql_limit=1")
    assert code == 2
    assert "unable to write the database of 'chat/zed'; the agent's database would have more than 1 MB" in err
    assert "2 SQL databases written" in say(capsys, *into, postgres_url)[1]


def test_a_damaged_database_is_refused_whole(source: str, capsys: Captured) -> None:
    assert say(capsys, "export", "chat/ann", "-o", "ann.jsonl", "--db", source)[0] == 0
    packed = unpack("ann.jsonl")
    agent = AgentId("chat/ann")
    image = packed.databases[agent]
    for bad in (image[: len(image) // 2], b"not a database" * 100, b""):
        with Path("bad.jsonl").open("wb") as out:
            pack(out, [(each, ()) for each in packed.agents], "now", {agent: bad or b"\x00"})
        with pytest.raises(BadInput, match="the SQL database of 'chat/ann' cannot be used"):
            unpack("bad.jsonl")
    assert say(capsys, "import", "bad.jsonl", "--db", "target.db")[0] == 2
    assert not Path("target.db").exists()


def test_a_large_database_is_exported_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table t as select zeroblob(3000000) as x")
        made.commit()
    image = image_from(lambda: sqlite3.connect(path))
    assert check_image(image) is None
    file = tmp_path / "x.jsonl"
    with file.open("wb") as out:
        pack(out, [(AgentId("chat/ann"), ())], "now", {AgentId("chat/ann"): image})
    assert max(map(len, file.read_bytes().splitlines())) < DATABASE_PART * 3 // 2
    assert unpack(str(file)).databases == {AgentId("chat/ann"): image}
