"""What commands write: nothing that a terminal obeys, colours only for people, columns that stay columns."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest
from rich.cells import cell_len

from everyword.cli.output import Output
from everyword.errors import UsageError
from tests.cli.kit import Tty


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


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
    assert (Output(out=out).style("x", "red") == "\033[31mx\033[0m") is is_coloured


def test_columns_stand_below_each_other_also_with_wide_letters() -> None:
    out = io.StringIO()
    Output(out=out).table(["A", "B", "C"], [["日本", "x", "1"], ["ab", "yy", "2"], ["é", "z", "3"]])
    places = [
        cell_len(line[: line.index(last)]) for line, last in zip(out.getvalue().splitlines()[1:], "123", strict=True)
    ]
    assert len(set(places)) == 1


def test_a_line_that_is_too_long_for_a_terminal_is_cut_and_a_pipe_gets_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    shown, piped = Tty(), io.StringIO()
    for out in (shown, piped):
        Output(out=out).table(["A", "B"], [["x", "long " * 20]])
    lines = re.sub(r"\x1b\[\d*m", "", shown.getvalue()).splitlines()
    assert lines and all(cell_len(line) <= 30 and line == line.rstrip() for line in lines)
    assert "…" in shown.getvalue() and "…" not in piped.getvalue()


def test_styles_do_not_move_columns() -> None:
    out = Tty()
    Output(out=out).table(["A", "B"], [["one", "x"], ["日", "y"]], [["red", "dim"], ["green", ""]])
    first, second = out.getvalue().splitlines()[1:]
    assert first == "\033[31mone\033[0m  \033[2mx\033[0m"
    assert second == "\033[32m日\033[0m   y"


def test_json_is_one_line_for_pipes_and_indented_for_people() -> None:
    piped, shown = io.StringIO(), Tty()
    for out in (piped, shown):
        Output(out=out).json({"a": [1]})
        assert json.loads(out.getvalue()) == {"a": [1]}
    assert piped.getvalue().count("\n") == 1 < shown.getvalue().count("\n")


def test_a_progress_bar_is_drawn_on_terminals_only_and_disappears() -> None:
    shown, piped = Tty(), io.StringIO()
    for err in (shown, piped):
        with Output(err=err).progress("working", 2) as progress:
            progress.step("one")
            progress.step("[red]two\a")
    assert piped.getvalue() == ""
    assert "working" in shown.getvalue() and "100%" in shown.getvalue() and "[red]two" in shown.getvalue()
    assert shown.getvalue().endswith("\x1b[2K"), "the last thing written erases the bar"


@pytest.mark.parametrize("stream", [io.StringIO, Tty])
def test_without_rich_json_works_and_text_names_the_extra(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rich.console", "rich.cells", "rich.color"):
        monkeypatch.setitem(sys.modules, name, None)
    out = stream()
    Output(out=out).json({"a": 1})
    Output(out=out).json_line({"a": 1})
    assert json.loads(out.getvalue().splitlines()[-1]) == {"a": 1}
    with pytest.raises(
        UsageError, match=r"rich is missing\. Install what the extra 'server' needs: pip install uvicorn"
    ):
        Output(out=out).table(["A"], [["x"]])
