"""`everyword serve`: run an app in production."""

from __future__ import annotations

import argparse
from typing import Any

from ...errors import UsageError
from ..arguments import add_address
from ..startup import garbage_collection_paused, listen

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Serve the agents of APP over HTTP and WebSockets, with the uvicorn settings that were measured to be the fastest. APP is
a file (app.py), a file and a name in it (app.py:chat_app), or a module and a name (my.package:app). A database file has
one server. A PostgreSQL database can have many: each is a node, and clients may use any of them.

examples:
  everyword serve app.py
  everyword serve app.py --store postgresql://everyword@db.internal/everyword
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
    parser.add_argument("--store", metavar="STORE", help="file or postgresql://…, instead of the store of the app")
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
        if chosen.store is not None:
            _use_store(app, chosen.app, chosen.store)
        if isinstance(app, Everyword) and not app.access_policy.has_authorize:
            log.warning(WITHOUT_AUTHORIZE)
        return run_server(
            app,
            listener,
            chosen.host,
            lambda url: f"everyword {__version__} serves {chosen.app} at {url}{_node_line(app)}",
            app,
        )


def _use_store(app: Any, named: str, store: str) -> None:
    from ..mounted_apps import mounted_in

    found = [each for _, each in mounted_in(app)]
    if len(found) != 1:
        raise UsageError(
            f"unable to use --store; {named} has {len(found) or 'no'} Everyword apps. Name the one to serve, or give "
            "each its own store: Everyword(..., store=...)"
        )
    found[0].use_store(store)


def _node_line(app: Any) -> str:
    """Return a line about each app that is a node among several."""
    from ..mounted_apps import mounted_in

    nodes = [(each.node, each.where) for _, each in mounted_in(app)]
    return "".join(
        f"\nnode {node.name!r}, incarnation {node.id}, takes links of other nodes at {node.url}; its store is {where}"
        for node, where in nodes
        if node is not None
    )
