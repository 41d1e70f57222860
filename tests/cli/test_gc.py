"""`everyword gc`: what retention may take is gone, and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from everyword import AIChatAgent
from everyword.cli import main
from everyword.cli.readonly_log import ReadOnlyLog
from everyword.ids import AgentId
from tests.cli.kit import damage
from tests.server.kit import chat


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


def test_superseded_states_go_too_and_the_last_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(_set_states(tmp_path / "everyword.db", 50))
    foretold = _told(capsys, "--dry-run", "--keep", "0s")
    assert (foretold["states"], foretold["bytes"] > 49 * 1000) == (49, True)
    assert main(["gc", "--dry-run", "--keep", "0s"]) == 0
    assert "would delete 0 chunks and 49 superseded states, " in capsys.readouterr().out
    done = _told(capsys, "--keep", "0s")
    assert (done["chunks"], done["states"], done["bytes"]) == (0, 49, foretold["bytes"])
    assert _told(capsys, "--keep", "0s")["states"] == 0
    assert main(["doctor"]) == 0
    assert main(["rebuild"]) == 0
    assert main(["doctor"]) == 0
    assert asyncio.run(_state(tmp_path / "everyword.db")) == {"n": 49, "text": "x" * 1000}


async def _set_states(path: Path, count: int) -> None:
    app = chat(Keeper, store=str(path))
    async with app:
        for n in range(count):
            await app.get(Keeper, "ann").set_state({"n": n, "text": "x" * 1000})


async def _state(path: Path) -> Any:
    store = ReadOnlyLog(path)
    await store.open()
    (kept,) = await store.kept(AgentId("keeper/ann"))
    await store.aclose()
    assert kept.body is not None
    return json.loads(kept.body)


class Keeper(AIChatAgent):
    """Keeps a state and says nothing."""


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
    assert "can be reused" in said.out and "--shrink" in said.err
    shrunk = _told(capsys, "--shrink")
    assert shrunk["fileBytes"] < shrunk["wasBytes"] - 300_000 and shrunk["freeBytes"] == 0
    assert stored.stat().st_size == shrunk["fileBytes"]
    assert main(["doctor"]) == 0
    assert main(["gc", "--shrink"]) == 0
    assert " now, " in capsys.readouterr().out


def test_a_time_that_is_none_is_refused(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", "--keep", "long"]) == 2
    assert "write 90s, 30m, 24h or 7d" in capsys.readouterr().err
