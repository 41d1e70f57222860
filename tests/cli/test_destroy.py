"""`everyword destroy`: one agent and all below it, after a question; nothing else is touched."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from everyword import Agent, AIChatAgent, Everyword
from everyword.cli import main
from tests.loaded_agents import loaded_agent


class Note(Agent):
    pass


class Chat(AIChatAgent):
    pass


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"

    async def fill() -> None:
        async with Everyword([Chat, Note], store=str(path)) as app:
            for name in ("ann", "ann/2", "bob"):
                chat = await loaded_agent(app.get(Chat, name))
                await chat.set_state(name)
                await chat.sql("create table t (x)")
                await (await chat.sub_agent(Note, "kid")).set_state(1)

    asyncio.run(fill())
    return path


def listed(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["ls", "--json", "--sort", "name", "--db", str(path)]) == 0
    return [each["agent"] for each in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize("typed", [["chat", "ann"], ["chat/ann"]])
def test_an_agent_is_deleted_with_its_database_and_all_below_it(
    typed: list[str], filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = listed(filled, capsys)
    files = {*filled.parent.rglob("log.db.agents/**/*.db")}
    assert main(["destroy", *typed, "--yes", "--db", str(filled)]) == 0
    assert capsys.readouterr().out == "deleted chat/ann and 1 agent below it\n"
    gone = {"chat/ann", "chat/ann/sub/note/kid"}
    assert listed(filled, capsys) == [each for each in before if each not in gone]
    assert len(files - {*filled.parent.rglob("log.db.agents/**/*.db")}) == 1
    assert main(["doctor", "--no-app", "--db", str(filled)]) == 0
    assert main(["destroy", *typed, "--yes", "--json", "--db", str(filled)]) == 2
    assert "no such agent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "is_done"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_it_asks_first(
    said: str, is_done: bool, filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(said))
    assert main(["destroy", "chat", "bob", "--db", str(filled)]) == (0 if is_done else 2)
    told = capsys.readouterr()
    assert "Delete chat/bob and 1 agent below it, with everything it stored?" in told.err
    assert ("nothing was deleted" in told.err) is not is_done
    assert ("chat/bob" in listed(filled, capsys)) is not is_done


def test_without_a_terminal_or_a_kind_it_says_what_to_do(
    filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    before = listed(filled, capsys)
    assert main(["destroy", "chat", "bob", "--db", str(filled)]) == 2
    assert "Add --yes" in capsys.readouterr().err
    assert main(["destroy", "bob", "--yes", "--db", str(filled)]) == 2
    assert "everyword destroy chat bob" in capsys.readouterr().err
    assert listed(filled, capsys) == before


def test_what_was_cut_short_is_finished_by_the_next_server(
    filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("everyword.cli.commands.destroy.drop_database", cut)
    assert main(["destroy", "chat", "bob", "--yes", "--db", str(filled)]) == 130

    async def serve() -> None:
        async with Everyword([Chat, Note], store=str(filled)) as app:
            assert await app.get(Chat, "bob").get_state() is None

    asyncio.run(serve())
    assert "chat/bob/sub/note/kid" not in listed(filled, capsys)
