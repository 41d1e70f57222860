"""`everyword dev`: try agents in a browser, and restart the server when a file changes."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...errors import UsageError
from ..app_import import DEFAULT_APP
from ..arguments import add_address
from ..reloader import (
    can_reload,
    check_app,
    inherited_listener,
    is_child,
    is_restarted,
    keep_serving,
    load_in_child,
    root_pid,
)
from ..startup import garbage_collection_paused, listen

if TYPE_CHECKING:
    from ...server import Everyword

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Start a server with a web page to try the agents in, and restart it when a Python file changes; answers in progress
continue after the restart. Without APP, it serves the app.py of this folder, or a scripted demo agent that needs no API
key.

Ask for a long story, kill the server in the middle of it (the page and the terminal show the command), start it again,
and watch the page finish the sentence.

examples:
  everyword dev
  everyword dev app.py
  everyword dev my.package:app --port 0
"""

JUST_KILLED = 0.5
"""Seconds to wait for a port: a server whose watcher was killed a moment ago may still have it."""

DEV_ORIGINS = ("http://localhost:*", "http://127.0.0.1:*")
DEV_GRACE = 1.0
"""Seconds that answers have to finish when a developer stops the server: the next one continues them anyway."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", nargs="?", metavar="APP", help="file.py, file.py:name or module:name")
    add_address(parser)
    parser.add_argument(
        "--db", "--store", metavar="STORE", help="file or postgresql://… of the demo (default: everyword.db)"
    )
    parser.add_argument("--demo", action="store_true", help="run the demo even if there is an app.py")
    parser.add_argument("--no-reload", dest="reload", action="store_false", help="do not restart when a file changes")


def run(chosen: argparse.Namespace) -> int:
    """Serve the playground in front of an app or the demo; restart an app when its files change."""
    named = _named_app(chosen)
    if named is not None and chosen.reload and can_reload() and not is_child():
        check_app(named)
        return keep_serving(named, listen(chosen.host, chosen.port, patience=JUST_KILLED), chosen.host)
    # Before the slow imports: clients that connect meanwhile wait in the backlog.
    with inherited_listener() or listen(chosen.host, chosen.port) as listener, garbage_collection_paused():
        return _serve(chosen, named, listener)


def _named_app(chosen: argparse.Namespace) -> str | None:
    """Return the app to serve, or None for the demo."""
    if chosen.app is not None and (chosen.db is not None or chosen.demo):
        raise UsageError("unable to use --db with an app; the app itself names its file: Everyword(..., store=...)")
    is_demo = chosen.demo or chosen.db is not None
    return chosen.app or (DEFAULT_APP if not is_demo and Path(DEFAULT_APP).is_file() else None)


def _serve(chosen: argparse.Namespace, named: str | None, listener: socket) -> int:
    from ...server import Everyword
    from ..mounted_apps import mounted_in
    from ..playground import playground, playground_beside
    from ..web_server import require_packages, run_server

    require_packages()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    app = load_in_child(named) if named is not None else _demo(chosen.db)
    mounted = mounted_in(app)
    for _, each in mounted:
        each.is_development = True
        each.invite(*DEV_ORIGINS)
        each.grace = DEV_GRACE
    shown = app
    if isinstance(app, Everyword):
        shown = playground(app)
    elif mounted:
        path, first = mounted[0]
        shown = playground_beside(app, first, f"{path}{first.base_path}")
    return run_server(
        shown, listener, chosen.host, lambda url: _greeting(app, mounted, url, is_demo=named is None), app
    )


def _demo(db: str | None) -> Everyword:
    from ...demo import Demo
    from ...server import Everyword
    from ...server.conversation_options import ConversationOptions

    return Everyword([Demo], store=db or "everyword.db", conversations=ConversationOptions(search=True))


def _greeting(app: Any, mounted: Sequence[tuple[str, Everyword]], url: str, *, is_demo: bool) -> str:
    from ...server.playground import FEED

    if is_restarted():
        return f"  restarted at {url}"
    if not mounted:
        return f"""
  everyword {__version__}

  Serving   {url}

  There is no playground, because no Everyword app is mounted in this {type(app).__name__}. To mount one:
            app.mount("/agents", Everyword([Chat], base_path="/"))

  Press Ctrl+C to stop.
"""
    (path, first), *others = mounted
    kinds = ", ".join(sorted(first.classes))
    page = url if first is app else f"{url}{FEED}/"
    question = "Ask for a long story" if is_demo else "Ask for a long answer"
    return f"""
  everyword {__version__}

  Agents    {kinds}; at {url}{path}{first.base_path}/{{kind}}/{{name}}
  Database  {first.where}
{_others(path, first, others)}
  Try this  {question}. In the middle of a sentence, run in another terminal:

                kill -9 {root_pid()}

            Start the server again with the same command, and watch the page finish the sentence.

  Press Ctrl+C to stop. Open this page in a browser:

      {page}
"""


def _others(path: str, first: Everyword, others: Sequence[tuple[str, Everyword]]) -> str:
    if not others:
        return ""
    places = " and ".join(f"{place}{each.base_path}" for place, each in others)
    return f"\n  The playground shows the agents at {path}{first.base_path}, but not those at {places}.\n"
