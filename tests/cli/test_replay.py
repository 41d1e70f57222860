"""`everyword replay`: frames for people and for scripts, at the pace that they ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everyword.cli import main
from everyword.cli.commands import replay
from tests.cli.kit import damage


@pytest.mark.parametrize("role", ["live", "watching", "late", "reconnecting"])
@pytest.mark.parametrize("turn", ["1", "look", "fail"])
def test_every_client_of_every_turn_ends_with_the_stored_message(
    role: str, turn: str, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "ann", turn, "--as", role]) == 0
    said = capsys.readouterr()
    assert "the client shows the stored message" in said.err
    assert "← chat_messages" in said.out
    assert ("✗ the connection is lost" in said.out) is (role == "reconnecting")


def test_the_newest_turn_is_played_if_none_is_named_and_scripts_get_lines(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "ann", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["way"] for line in lines} == {"in"}
    ends = [line["frame"] for line in lines if line["frame"].get("done")]
    assert [(end["id"], end["outcome"]) for end in ends] == [("fail", "error")]


def test_a_turn_can_be_told_instead(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "ann", "look", "--text"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("user\n  look\nassistant\n") and "It is clear." in text and "✓ completed" in text


def test_a_turn_that_is_open_is_played_as_far_as_it_is(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "cid", "--as", "late", "--at", "3"]) == 0
    assert "still open" in capsys.readouterr().err


def test_speed_makes_it_wait_as_long_as_it_took(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(stored, "UPDATE event SET at = at + 1000 * seq WHERE agent = 1")
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(replay, "sleep", wait)  # this name alone: other threads of the test run sleep too
    assert main(["replay", "ann", "1", "--speed", "2"]) == 0
    assert sum(waited) == pytest.approx(5.5, rel=0.2)
    assert main(["replay", "ann", "1", "--text", "--speed", "10"]) == 0
    assert "Hello" in capsys.readouterr().out


def test_what_retention_has_taken_cannot_be_played_chunk_by_chunk(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--keep", "0s"]) == 0
    assert main(["replay", "ann", "look"]) == 2
    assert "retention has deleted" in capsys.readouterr().err
    assert main(["replay", "ann", "look", "--as", "late"]) == 0
    assert "the client shows the stored message" in capsys.readouterr().err


def test_a_client_that_would_show_something_else_is_exit_code_1(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everyword.cli.turn_replay.ChatView.happened", lambda view, committed: [])
    assert main(["replay", "ann", "look", "--as", "watching"]) == 1
    assert "another message than the stored one" in capsys.readouterr().err


def test_a_speed_of_nothing_is_refused(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "ann", "--speed", "0"]) == 2
    assert "1 is real time" in capsys.readouterr().err
