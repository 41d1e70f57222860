"""`everyword serve`: run an app in production."""

from __future__ import annotations

import argparse

from ..arguments import add_address
from ..startup import garbage_collection_paused, listen

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Serve the agents of APP over HTTP and WebSockets, with the uvicorn settings that were measured to be the fastest. APP is
a file (app.py), a file and a name in it (app.py:chat_app), or a module and a name (my.package:app). It runs in one
process, because a database file has one owner.

examples:
  everyword serve app.py
  everyword serve my.package:app --host 0.0.0.0 --port 80
"""

WITHOUT_AUTHORIZE = (
    "this app has no `authorize`: requests that seem to come from this machine may use every agent, others none. "
    "A reverse proxy on this machine that sets no forwarding header (X-Forwarded-For, X-Real-IP, Forwarded, Via) "
    "makes every client seem local. Pass Everyword(..., authorize=...) before other machines can reach it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="APP", help="file.py, file.py:name or module:name")
    add_address(parser)
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="format of the log lines")


def run(chosen: argparse.Namespace) -> int:
    """Serve an app, without the playground."""
    # Before the imports below, which take most of the time until the first response: a client that connects meanwhile
    # waits in the backlog instead of being refused.
    with listen(chosen.host, chosen.port) as listener, garbage_collection_paused():
        from ... import __version__
        from ...observe.logs import configure_logging
        from ...server import Everyword
        from ..app_import import load_app
        from ..web_server import log, require_packages, run_server

        configure_logging(chosen.log_format)
        require_packages()
        app = load_app(chosen.app)
        if isinstance(app, Everyword) and not app.access_policy.has_authorize:
            log.warning(WITHOUT_AUTHORIZE)
        return run_server(
            app, listener, chosen.host, lambda url: f"everyword {__version__} serves {chosen.app} at {url}", app
        )
