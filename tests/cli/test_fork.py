"""`everyword fork`: the messages up to one of them, as a new agent; the old one stays as it was."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from everyword.cli import main
from tests.cli.kit import speaker
from tests.server.kit import ask, chat, connect, question, serving


def _messages(capsys: pytest.CaptureFixture[str], agent: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["show", agent, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["messages"]
    return [each["message"] for each in shown if each["isShown"]]


def test_a_fork_has_the_messages_that_were_shown(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _messages(capsys, "chat/ann")
    assert main(["fork", "ann", "copy"]) == 0
    assert "chat/copy has the first 6 messages of chat/ann" in capsys.readouterr().out
    assert _messages(capsys, "chat/copy") == before == _messages(capsys, "chat/ann")
    assert main(["doctor"]) == 0


def test_a_fork_ends_at_the_message_that_is_named(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _messages(capsys, "chat/ann")
    assert main(["fork", "ann", "other/copy", "--at", before[1]["id"], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"agent": "other/copy", "forkedFrom": "chat/ann", "at": before[1]["id"], "messages": 2}
    assert _messages(capsys, "other/copy") == before[:2]


def test_an_answer_that_is_being_written_is_left_out(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fork", "cid", "copy"]) == 0
    assert [message["role"] for message in _messages(capsys, "copy")] == ["user"]


async def test_the_conversation_goes_on_in_the_fork(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(main, ["fork", "dan", "copy"]) == 0
    async with serving(chat(speaker(), store=str(stored))) as url, connect(f"{url}/agents/chat/copy") as client:
        await ask(client, question("u9", "and now?"))
        messages = (await client.get("get-messages")).json()
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ann", "bob"], "an agent with this name exists"),
        (["ann", "copy", "--at", "nothing"], "it has no message 'nothing'"),
        (["ann", "a/sub/b/c"], "write a name, or kind/name"),
        (["ann", "chat/"], "write a name, or kind/name"),
        (["zed", "copy"], "has no such agent"),
    ],
)
def test_what_cannot_be_forked_is_a_sentence(
    arguments: list[str], sentence: str, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", *arguments]) == 2
    assert sentence in capsys.readouterr().err


async def test_a_file_that_a_server_uses_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "live.db"
    async with serving(chat(speaker(), store=str(path))) as url, connect(f"{url}/agents/chat/ann") as client:
        await ask(client, question("u1", "hello"))
        writing = [
            ["fork", "ann", "copy"],
            ["gc"],
            ["rebuild"],
            ["doctor", "--fix"],
            ["destroy", "chat", "ann", "--yes"],
        ]
        assert await asyncio.to_thread(main, ["export", "ann", "-o", str(tmp_path / "a.gz"), "--db", str(path)]) == 0
        for arguments in [*writing, ["import", str(tmp_path / "a.gz"), "--as", "chat/new"]]:
            assert await asyncio.to_thread(main, [*arguments, "--db", str(path)]) == 3, arguments
            said = capsys.readouterr().err
            assert "is using it. Stop it first (`kill " in said and "then run this again" in said
        for arguments in (["ls"], ["show", "ann"], ["replay", "ann"], ["doctor"], ["gc", "--dry-run"]):
            assert await asyncio.to_thread(main, [*arguments, "--db", str(path)]) == 0, arguments
        messages = (await client.get("get-messages")).json()
    assert len(messages) == 2
