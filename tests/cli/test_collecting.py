"""`everyword gc`: what retention may take is gone, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everyword.cli import main
from tests.cli.kit import damage


def _told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, int]:
    capsys.readouterr()
    assert main(["gc", "--json", *arguments]) == 0
    told: dict[str, int] = json.loads(capsys.readouterr().out)
    return told


def test_what_would_go_is_said_first_and_is_what_goes(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foretold = _told(capsys, "--dry-run", "--keep", "0s")
    assert foretold["chunks"] > 30 and foretold["bytes"] > 1000
    assert _told(capsys, "--dry-run", "--keep", "0s") == foretold
    assert _told(capsys)["chunks"] == 0, "a day is kept"
    done = _told(capsys, "--keep", "0s")
    assert (done["chunks"], done["bytes"]) == (foretold["chunks"], foretold["bytes"])
    assert _told(capsys, "--keep", "0s")["chunks"] == 0
    assert main(["doctor"]) == 0


def test_messages_turns_and_the_chunks_of_open_turns_stay(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(agent: str) -> str:
        capsys.readouterr()
        assert main(["show", agent, "--all"]) == 0
        return "\n".join(capsys.readouterr().out.splitlines()[2:])

    before = {agent: shown(agent) for agent in ("ann", "bob", "cid", "dan")}
    assert main(["gc", "--keep", "0s"]) == 0
    assert {agent: shown(agent) for agent in before} == before
    assert main(["replay", "cid", "--as", "late", "--at", "3"]) == 0


def test_the_space_is_given_back_when_asked_for(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(
        stored,
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 400) "
        "INSERT INTO message (agent, node, id, role, body, at) SELECT 99, i, 'x', 'user', randomblob(1000), 1 FROM n",
        "DELETE FROM message WHERE agent = 99",
    )
    kept = _told(capsys, "--keep", "0s")
    assert kept["fileBytes"] == kept["wasBytes"] and kept["freeBytes"] > 300_000
    assert main(["gc"]) == 0
    said = capsys.readouterr()
    assert "free for what comes" in said.out and "--shrink" in said.err
    shrunk = _told(capsys, "--shrink")
    assert shrunk["fileBytes"] < shrunk["wasBytes"] - 300_000 and shrunk["freeBytes"] == 0
    assert stored.stat().st_size == shrunk["fileBytes"]
    assert main(["doctor"]) == 0
    assert main(["gc", "--shrink"]) == 0
    assert "and was" in capsys.readouterr().out


def test_a_time_that_is_none_is_refused(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", "--keep", "long"]) == 2
    assert "write 90s, 30m, 24h or 7d" in capsys.readouterr().err
