"""`everyword show`: the messages that clients see, the turns and how they ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everyword.cli import main
from tests.cli.kit import damage


def _shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["show", *arguments]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def test_a_conversation_is_shown_with_its_messages_and_turns(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _shown(capsys, "chat/ann")
    assert text.startswith("chat/ann  failed: Something went wrong")
    for expected in (
        "6 messages, 4 turns, active ",
        "version 2 of 2\n  hello again",
        "\n  Hello, you there\n",
        '\n  ⚙ look({"at":"sea"}) → {"sky":"clear"}\n',
        "\n  ◆ data-chart [1,2]\n",
        "\n  ↗ A source https://example.org\n",
        "\n  It is clear.\n",
        "ValueError: the inside of it",
    ):
        assert expected in text, expected
    assert [line.split()[1] for line in text.splitlines()[-4:]] == ["completed", "completed", "completed", "error"]


def test_the_name_alone_will_do_and_what_is_asked_for_is_all_that_is_shown(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "TURN" not in _shown(capsys, "ann", "--messages")
    assert "hello" not in _shown(capsys, "ann", "--turns")
    last = _shown(capsys, "ann", "-n", "1", "--messages")
    assert "… 5 messages earlier" in last and "hello" not in last
    assert "not shown\n  hello\n" in _shown(capsys, "ann", "--all").replace("version 1 of 2  ", "")
    assert _shown(capsys, "ann", "--state") == "null\n"


def test_calls_that_wait_and_answers_that_are_being_written_say_so(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert '⚙ pay({"sum":7}) waits for approval' in _shown(capsys, "bob")
    assert "in progress\n  Hel\n" in _shown(capsys, "cid")


def test_nothing_that_was_said_moves_the_terminal(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _shown(capsys, "dan", "--all")
    assert "\033" not in text and "\a" not in text and "a [31mred[0m word" in text


def test_scripts_get_everything_as_json(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ann = json.loads(_shown(capsys, "ann", "--json"))
    assert (ann["agent"], ann["standing"], ann["generation"]) == ("chat/ann", "failed", 0)
    assert [each["isShown"] for each in ann["messages"]] == [False, False, True, True, True, True, True, True]
    assert ann["messages"][0]["message"]["parts"] == [{"type": "text", "text": "hello"}]
    failed = ann["turns"][-1]
    assert (failed["request"], failed["status"], failed["detail"]) == ("fail", "error", "ValueError: the inside of it")
    assert json.loads(_shown(capsys, "dan", "--json"))["generation"] == 1


def test_a_row_that_cannot_be_read_is_told_of_and_the_rest_is_shown(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(stored, "UPDATE message SET body = CAST('{broken' AS BLOB) WHERE agent = 1 AND node = 4")
    assert main(["show", "ann"]) == 0
    said = capsys.readouterr()
    assert "It is clear." in said.out and "run `everyword doctor`" in said.err
    assert main(["show", "ann", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agent"] == "chat/ann"
