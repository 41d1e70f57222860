"""The `holdfast` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import HoldfastError

SUMMARY = "AI chat agents that do not lose a word."

EXAMPLES = """\
examples:
  holdfast dev                   a page and a demo agent that needs no key, at http://localhost:8787
  holdfast dev app.py            the same page, with the agents of your own app
  holdfast serve app.py          your app, for production; plain `uvicorn app:app` does as well
  holdfast rebuild               compute everything beside the log anew, from the log

`holdfast COMMAND --help` says more about one of them."""

DEV = """\
Start a server with a page to try it in. Without APP it serves a scripted demo agent that needs no key.
Then ask for a long story, kill the server in the middle of it (the command is printed), start it again,
and watch the page finish the sentence."""

SERVE = """\
Serve the agents of APP over HTTP and WebSockets, with the settings that we measured to be the fastest. APP is a
file (app.py), a file and a name in it (app.py:chat_app), or a module and a name (my.package:app). One process:
a database file has one owner."""

REBUILD = """\
Fold every agent's log and replace the tables that are computed from it: turns and messages. The log itself is
never changed. Stop the server first. Without AGENT, all agents are rebuilt; an agent is named kind/name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code: 0 done, 1 failed, 2 not understood."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 2
    try:
        return _run(chosen)
    except HoldfastError as exc:
        print(f"holdfast: {exc}", file=sys.stderr)
        return 1


def _run(chosen: argparse.Namespace) -> int:
    # Imported when asked for: `--help` needs no server, and the server is an extra.
    if chosen.command == "rebuild":
        from .rebuilding import run_rebuild

        return run_rebuild(chosen.db, chosen.agents)
    from .serving import run_dev, run_serve

    if chosen.command == "dev":
        return run_dev(chosen.app, chosen.host, chosen.port, chosen.db)
    return run_serve(chosen.app, chosen.host, chosen.port)


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("holdfast", description=SUMMARY, epilog=EXAMPLES, formatter_class=layout)
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    dev = commands.add_parser("dev", help="a page to try agents in", description=DEV, formatter_class=layout)
    dev.add_argument("app", nargs="?", metavar="APP", help="file.py, file.py:name or module:name (default: a demo)")
    _add_address(dev)
    dev.add_argument("--db", metavar="PATH", help="where the demo keeps its log (default: holdfast.db)")

    serve = commands.add_parser("serve", help="agents in production", description=SERVE, formatter_class=layout)
    serve.add_argument("app", metavar="APP", help="file.py, file.py:name or module:name")
    _add_address(serve)

    rebuild = commands.add_parser(
        "rebuild", help="recompute what is computed from the log", description=REBUILD, formatter_class=layout
    )
    rebuild.add_argument("agents", nargs="*", metavar="AGENT", help="kind/name (default: all)")
    rebuild.add_argument("--db", metavar="PATH", default="holdfast.db", help="the log (default: %(default)s)")
    return parser


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8787, help="0 chooses a free one (default: %(default)s)")
