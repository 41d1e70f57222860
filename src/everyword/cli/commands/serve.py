"""`everyword serve`: run an app in production."""

from __future__ import annotations

import argparse
from typing import Any

from ...errors import UsageError
from ..arguments import add_address
from ..startup import garbage_collection_paused, listen
from ..worker_channel import inherited_channel

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Serve the agents of APP over HTTP and WebSockets, with the uvicorn settings that were measured to be the fastest. APP is
a file (app.py), a file and a name in it (app.py:chat_app), or a module and a name (my.package:app). A database file has
one server. A PostgreSQL database can have many: each is a node, and clients may use any of them.

--workers N runs N nodes as processes on one port, and starts a process again that has ended. SIGTERM stops all of them;
SIGHUP replaces them one after the other, with the app as it is then.

examples:
  everyword serve app.py
  everyword serve app.py --store postgresql://everyword@db.internal/everyword
  everyword serve my.package:app --host 0.0.0.0 --port 80
  everyword serve app.py --workers 4 --store postgresql://everyword@localhost/everyword
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
    parser.add_argument(
        "--workers",
        metavar="N",
        type=_parse_workers,
        default=1,
        help="processes that share the port; more than one needs a PostgreSQL store (default: %(default)s)",
    )


def _parse_workers(given: str) -> int:
    if not given.isdecimal() or int(given) < 1:
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of processes; write 1 or more")
    return int(given)


def run(chosen: argparse.Namespace) -> int:
    """Serve an app, without the playground: here, or in workers."""
    worker = inherited_channel()
    if worker is None and chosen.workers > 1:
        from ..supervisor import supervise

        return supervise(chosen)
    # Before the imports below, which take most of the time until the first response: a client that connects meanwhile
    # waits in the backlog instead of being refused.
    opened = worker.listener if worker is not None else listen(chosen.host, chosen.port)
    with opened as listener, garbage_collection_paused():
        from ... import __version__
        from ...observe.logs import configure_logging
        from ...server import Everyword
        from ..app_import import load_app
        from ..web_server import log, require_packages, run_server

        configure_logging(chosen.log_format)
        require_packages()
        app = load_app(chosen.app)
        store = chosen.store if worker is None else worker.store
        if store is not None:
            _use_store(app, chosen.app, store)
        if worker is not None:
            _check_workers(app, chosen.workers)
        is_first = worker is None or worker.is_first
        if is_first and isinstance(app, Everyword) and not app.access_policy.has_authorize:
            log.warning(WITHOUT_AUTHORIZE)
        return run_server(
            app,
            listener,
            chosen.host,
            lambda url: f"everyword {__version__} serves {chosen.app} at {url}{_node_line(app)}",
            app,
            worker,
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


def _check_workers(app: Any, count: int) -> None:
    """Refuse an app that several processes cannot run at the same time."""
    from ..mounted_apps import mounted_in

    for _, each in mounted_in(app):
        if not each.has_shared_store:
            raise UsageError(
                f"unable to run {count} workers; the store {each.where!r} belongs to one process at a time, and "
                "each worker is a process. Use PostgreSQL (--store postgresql://user@host/database) or one worker"
            )


def _node_line(app: Any) -> str:
    """Return a line about each app that is a node among several."""
    from ..mounted_apps import mounted_in

    nodes = [(each.node, each.where) for _, each in mounted_in(app)]
    return "".join(
        f"\nnode {node.name!r}, incarnation {node.id}, takes links of other nodes at {node.url}; its store is {where}"
        for node, where in nodes
        if node is not None
    )
