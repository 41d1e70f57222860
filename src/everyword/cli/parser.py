"""The commands, and a parser that imports the module of a command when the command is chosen."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .. import __version__

__all__ = ["COMMANDS", "CommandParser", "make_parser"]

SUMMARY = "AI chat agents that do not lose a word."

OVERVIEW = """\
start:
  everyword new mychat            create a project with an agent and a test
  everyword dev                   try agents in a browser: ./app.py, or a demo that needs no API key
  everyword serve app.py          run an app in production; `uvicorn app:app` works as well

inspect (also while a server is running):
  everyword ls                    list conversations: running, stuck, failed, asking, waiting, idle
  everyword show chat/ann         show one conversation: its messages, its turns, how each turn ended
  everyword tail chat/ann         follow a conversation live
  everyword replay chat/ann       replay a turn frame by frame, as a client received it
  everyword doctor                check the stored data and the app for problems
  everyword export chat/ann       write one agent to a file
  everyword audit                 print who asked, approved, stopped and changed what
  everyword nodes postgresql://…  list the nodes that share a database

change (only while no server is running):
  everyword fork chat/ann ann-2   copy a conversation up to a message into a new agent
  everyword import FILE           read an agent from a file
  everyword copy FILE STORE       copy all agents of a file into a PostgreSQL database
  everyword rebuild               recompute the tables that are derived from the log
  everyword gc                    apply the retention rules now
  everyword destroy chat ann      delete an agent permanently
  everyword principal erase ID    delete a person's data; `export` writes it to a file

exit codes: 0 success; 1 finished, problems found; 2 not done, with the reason; 3 a server is using the file.

Run `everyword COMMAND --help` for the options and examples of a command."""

COMMANDS = (
    *("new", "dev", "serve"),
    *("ls", "show", "tail", "replay", "doctor", "export", "audit", "nodes"),
    *("fork", "import", "copy", "rebuild", "gc", "destroy", "principal"),
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line. Parsing sets `run` to the function that runs the command."""
    parser = argparse.ArgumentParser(
        "everyword", usage="everyword COMMAND [options]", description=SUMMARY, epilog=OVERVIEW, formatter_class=_Layout
    )
    parser.add_argument("--version", action="version", version=f"everyword {__version__}")
    commands = parser.add_subparsers(
        dest="command",
        metavar="COMMAND",
        title="one of",
        help=argparse.SUPPRESS,
        parser_class=CommandParser,
        prog="everyword",
    )
    for name in COMMANDS:
        commands.add_parser(name, command=name)
    return parser


class _Layout(argparse.HelpFormatter):
    """Wrap paragraphs to the width of the terminal; keep lists and examples as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(each if "\n  " in each else textwrap.fill(each, width) for each in paragraphs)


class CommandParser(argparse.ArgumentParser):
    """The parser of one command, whose module declares the arguments.

    The module is imported when the command is parsed: `everyword --help` imports none of them, `everyword ls` no web
    server.
    """

    def __init__(self, *, command: str, **settings: Any) -> None:
        super().__init__(formatter_class=_Layout, **settings)
        self._command = command
        self._is_loaded = False

    def load(self) -> CommandParser:
        """Import the command's module and add its arguments, once."""
        if not self._is_loaded:
            self._is_loaded = True
            name = "import_" if self._command == "import" else self._command
            module = import_module(f".commands.{name}", __package__)
            description, _, examples = module.HELP.partition("examples:\n")
            self.description, self.epilog = description.strip(), f"examples:\n{examples}"
            module.add_arguments(self)
            self.set_defaults(run=module.run)
        return self

    def parse_known_args(  # type: ignore[override]  # its overloads say the same
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self.load()
        return super().parse_known_args(args, namespace)
