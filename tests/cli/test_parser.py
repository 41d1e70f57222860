"""The reference page has every command and option, and none that is not there."""

from __future__ import annotations

import argparse
import re

import pytest

from everyword.cli.arguments import parse_duration
from everyword.cli.parser import COMMANDS, make_parser
from everyword.errors import UsageError
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")


def _commands() -> dict[str, argparse.ArgumentParser]:
    parser = make_parser()
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: command.load() for name, command in commands.choices.items()}


def _options(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings if name not in ("-h", "--help")}


def test_the_reference_page_has_every_command_and_every_option() -> None:
    missing = [name for name in _commands() if f"`everyword {name}" not in PAGE]
    missing += [
        f"{name} {option}"
        for name, parser in _commands().items()
        for option in _options(parser)
        if not re.search(rf"`{re.escape(option)}[` ]", PAGE)
    ]
    assert missing == []


def test_the_reference_page_has_no_option_that_is_not_there() -> None:
    known = {option for parser in _commands().values() for option in _options(parser)}
    assert {option for option in re.findall(r"`(--[a-z-]+)", PAGE) if option not in known} == set()


def test_every_command_has_a_module_and_a_line_in_the_overview() -> None:
    folder = ROOT / "src" / "everyword" / "cli" / "commands"
    assert {path.stem.removesuffix("_") for path in folder.glob("[a-z]*.py")} == set(COMMANDS)
    overview = make_parser().format_help()
    assert [name for name in COMMANDS if f"  everyword {name}" not in overview] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_function_that_runs_it(name: str) -> None:
    assert callable(_commands()[name].get_default("run"))


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [("90s", 90_000), ("2", 2_000), ("30m", 1_800_000), ("24h", 86_400_000), ("1.5 d", 129_600_000), ("0s", 0)],
)
def test_times_are_read_as_people_write_them(given: str, milliseconds: int) -> None:
    assert parse_duration(given) == milliseconds


@pytest.mark.parametrize("given", ["", "soon", "5 fortnights", "-1h", "h"])
def test_what_is_no_time_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="write 90s, 30m, 24h or 7d"):
        parse_duration(given)
