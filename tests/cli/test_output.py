"""What commands write: nothing that a terminal obeys, colours only for people, columns that stay columns."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.cli.output import Bar, Screen, age, clean, count_of, iso, measure, one_line, size_of
from tests.cli.kit import ESCAPE, Tty


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_of_a_text_and_everything_else_is(text: str) -> None:
    cleaned = clean(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c == "\u202e" for c in cleaned)
    assert [c for c in text if c.isalnum()] == [c for c in cleaned if c.isalnum()]
    assert "\n" not in one_line(text)


def test_an_escape_in_a_conversation_is_shown_as_what_is_left_of_it() -> None:
    assert clean(f"a {ESCAPE} word") == "a [31mred[0m word"


@pytest.mark.parametrize(
    ("environment", "is_terminal", "is_coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    environment: dict[str, str], is_terminal: bool, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = Tty() if is_terminal else io.StringIO()
    assert (Screen(out=out).style("x", "red") == "\033[31mx\033[0m") is is_coloured


def test_columns_stand_below_each_other_also_with_wide_letters() -> None:
    out = io.StringIO()
    Screen(out=out).table(["A", "B", "C"], [["日本", "x", "1"], ["ab", "yy", "2"], ["é", "z", "3"]])
    places = [
        measure(line[: line.index(last)]) for line, last in zip(out.getvalue().splitlines()[1:], "123", strict=True)
    ]
    assert len(set(places)) == 1


def test_a_line_that_is_too_long_for_a_terminal_is_cut_and_a_pipe_gets_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    shown, piped = Tty(), io.StringIO()
    for out in (shown, piped):
        Screen(out=out).table(["A", "B"], [["x", "long " * 20]])
    assert all(measure(line) <= 30 + 8 for line in shown.getvalue().splitlines())
    assert "…" in shown.getvalue() and "…" not in piped.getvalue()


def test_styles_do_not_move_columns() -> None:
    out = Tty()
    Screen(out=out).table(["A", "B"], [["one", "x"], ["日", "y"]], [["red", "dim"], ["green", ""]])
    first, second = out.getvalue().splitlines()[1:]
    assert first == "\033[31mone\033[0m  \033[2mx\033[0m"
    assert second == "\033[32m日\033[0m   y"


def test_json_is_one_line_for_pipes_and_indented_for_people() -> None:
    piped, shown = io.StringIO(), Tty()
    for out in (piped, shown):
        Screen(out=out).document({"a": [1]})
        assert json.loads(out.getvalue()) == {"a": [1]}
    assert piped.getvalue().count("\n") == 1 < shown.getvalue().count("\n")


def test_a_bar_is_drawn_on_terminals_only_and_is_gone_afterwards() -> None:
    shown, piped = Tty(), io.StringIO()
    for err in (shown, piped):
        with Bar("working", 2, err) as bar:
            bar.step("one")
            bar.step("two")
    assert piped.getvalue() == ""
    assert "100%" in shown.getvalue()
    assert shown.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (age(None, 0), "-"),
        (age(1_000, 4_000), "3 s ago"),
        (age(0, 7_200_000), "2 h ago"),
        (age(120_000, 0), "in 2 min"),
        (age(0, 3 * 86_400_000), "3 d ago"),
        (iso(None), None),
        (iso(1_500), "1970-01-01T00:00:01.500Z"),
        (size_of(10), "10 bytes"),
        (size_of(1536), "1.5 KiB"),
        (size_of(3 * 1024**3), "3.0 GiB"),
        (count_of(1, "turn"), "1 turn"),
        (count_of(0, "turn"), "0 turns"),
    ],
)
def test_numbers_are_told_in_words(said: str | None, expected: str | None) -> None:
    assert said == expected
