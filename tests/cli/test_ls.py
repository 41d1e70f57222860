"""`everyword ls`: what is running, stuck, failed; filtered, sorted, for people and for scripts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from everyword.cli import main
from everyword.testing import Gate
from tests.cli.kit import speaker
from tests.server.kit import chat, question, talking


def _listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["ls", "--json", *arguments]) == 0
    listed: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return listed


def test_every_agent_has_a_line_that_says_how_it_stands(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 0
    said = capsys.readouterr()
    lines = {line.split()[1]: line for line in said.out.splitlines()[1:]}
    assert lines["chat/ann"].startswith("failed") and "Something went wrong" in lines["chat/ann"]
    assert lines["chat/bob"].startswith("asking") and "pay waits for an answer" in lines["chat/bob"]
    assert lines["chat/cid"].startswith("stuck") and "continues after the next start" in lines["chat/cid"]
    assert lines["chat/dan"].startswith("idle") and "a [31mred[0m word" in lines["chat/dan"]
    assert "\033" not in said.out
    assert "4 agents in everyword.db; no server is running: 1 stuck, 1 failed, 1 asking, 1 idle" in said.err


def test_scripts_get_the_same_as_json(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_name = {each["agent"]: each for each in _listed(capsys)}
    ann = by_name["chat/ann"]
    assert (ann["state"], ann["messages"], ann["turns"], ann["lastOutcome"]) == ("failed", 6, 4, "error")
    assert ann["activeAt"].endswith("Z")
    assert by_name["chat/cid"]["openTurn"] == 1


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--failed"], ["ann"]),
        (["--failed", "--stuck"], ["ann", "cid"]),
        (["--running"], []),
        (["bo"], ["bob"]),
        (["chat/*"], ["ann", "bob", "cid", "dan"]),
        (["*/[ab]*"], ["ann", "bob"]),
        (["nothing/*"], []),
        (["--reverse"], ["dan", "cid", "bob", "ann"]),
        (["--limit", "2"], ["ann", "bob"]),
        (["--limit", "0"], ["ann", "bob", "cid", "dan"]),
    ],
)
def test_what_is_asked_for_is_listed(
    arguments: list[str], names: list[str], stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = _listed(capsys, "--sort", "name", *arguments)
    assert [each["agent"].removeprefix("chat/") for each in listed] == names


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("active", "cid dan bob ann"),
        ("turns", "ann dan bob cid"),
        ("state", "cid ann bob dan"),
        ("name", "ann bob cid dan"),
    ],
)
def test_the_order_is_as_asked_for(order: str, names: str, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = _listed(capsys, "--sort", order)
    assert " ".join(each["agent"].removeprefix("chat/") for each in listed) == names


def test_nothing_as_asked_for_is_said_and_is_no_failure(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--running"]) == 0
    said = capsys.readouterr()
    assert said.out == "" and "none of them match" in said.err
    assert main(["ls", "--limit", "1"]) == 0
    assert "3 more; --limit 0 shows all" in capsys.readouterr().err


async def test_beside_a_running_server_a_turn_that_streams_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, gate = tmp_path / "live.db", Gate()
    async with talking(chat(speaker(gate), store=str(path))) as client:
        headers = {"prefer": "respond-async", "idempotency-key": "stay"}
        await client.post("chat", json=question(), headers=headers)
        await gate.reached.wait()
        assert await asyncio.to_thread(main, ["ls", "--db", str(path), "--json"]) == 0
        (ann,) = json.loads(capsys.readouterr().out)
        assert (ann["agent"], ann["state"]) == ("chat/ann", "running")
        assert await asyncio.to_thread(main, ["ls", "--db", str(path), "--stuck", "--stuck-after", "0s"]) == 0
        said = capsys.readouterr()
        assert "no event for" in said.out and "a server is running" in said.err
        gate.open()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ls", "--db", "nothing.db"], "there is no such file. Name it: --db PATH"),
        (["ls", "--db", "mysql://x/y"], "commands work on SQLite files"),
        (["ls", "--stuck-after", "soon"], "write 90s, 30m, 24h or 7d"),
        (["show", "an"], "Did you mean 'chat/ann'"),
        (["show", "zzz"], "`everyword ls` lists them"),
        (["replay", "ann", "77"], "it has turns 1 to 4"),
        (["doctor", "nobody"], "has no such agent"),
    ],
)
def test_what_is_not_there_is_a_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and sentence in said.err and said.err.startswith("everyword: unable to ")
