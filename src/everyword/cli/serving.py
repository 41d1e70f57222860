"""`everyword dev` and `everyword serve`: uvicorn, set up as it is fastest, and a few words to whoever started it."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import importlib.util
import logging
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from .. import __version__
from ..demo import Demo
from ..errors import UsageError
from ..observe.logs import configure_logging
from ..server import Everyword, Limits
from .loading import load_app
from .playground import playground
from .reloading import (
    can_reload,
    check_app,
    inherited_listener,
    is_leashed,
    is_started_again,
    keep_serving,
    load_leashed,
    own_pid,
)

__all__ = ["run_dev", "run_serve"]

JUST_KILLED = 0.5
"""Seconds that a port may still be taken by a server whose watcher was killed a moment ago."""

HERE = "app.py"
"""What `dev` serves when nothing is named."""

DEV_ORIGINS = ("http://localhost:*", "http://127.0.0.1:*")
FORCE_CHECK = 0.1
"""Seconds between two looks for a second Ctrl+C."""

DEV_GRACE = 1.0
"""Seconds that answers have to finish when a developer stops the server: the next one goes on with them anyway."""

Drain = Callable[[], Coroutine[Any, Any, None]]


def run_dev(chosen: argparse.Namespace) -> int:
    """Serve the page in front of an app, or of the demo; an app is started anew when its files change."""
    named = _named(chosen)
    _require_uvicorn()
    if named is not None and chosen.reload and can_reload() and not is_leashed():
        check_app(named)
        return keep_serving(named, _listen(chosen.host, chosen.port, patience=JUST_KILLED), chosen.host)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    app = load_leashed(named) if named is not None else Everyword([Demo], store=chosen.db or "everyword.db")
    shown = app
    if isinstance(app, Everyword):
        app.invite(*DEV_ORIGINS)
        app.grace = DEV_GRACE
        shown = playground(app)
    drain = app.aclose if isinstance(app, Everyword) else None
    listener = inherited_listener() or _listen(chosen.host, chosen.port)
    words = partial(_greeting, app, is_demo=named is None)
    return _run(shown, listener, chosen.host, words, drain, _limits_of(app))


def _named(chosen: argparse.Namespace) -> str | None:
    """Return the app to serve, or None for the demo."""
    if chosen.app is not None and (chosen.db is not None or chosen.demo):
        raise UsageError("unable to use --db with an app; the app itself says where: Everyword(..., store=...)")
    is_demo = chosen.demo or chosen.db is not None
    return chosen.app or (HERE if not is_demo and Path(HERE).is_file() else None)


def run_serve(chosen: argparse.Namespace) -> int:
    """Serve an app, without a page."""
    configure_logging(chosen.log_format)
    _require_uvicorn()
    app = load_app(chosen.app)
    drain = app.aclose if isinstance(app, Everyword) else None
    listener = _listen(chosen.host, chosen.port)
    greeting = f"everyword {__version__} serves {chosen.app} at "
    return _run(app, listener, chosen.host, lambda url: greeting + url, drain, _limits_of(app))


def _limits_of(app: Any) -> Limits:
    return app.limits if isinstance(app, Everyword) else Limits()


def _require_uvicorn() -> None:
    for name in ("uvicorn", "websockets", "httptools"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"unable to serve; {name} is missing. Install it: pip install 'everyword[server]'")


def _run(
    app: Any,
    listener: socket.socket,
    host: str,
    greeting: Callable[[str], str],
    drain: Drain | None,
    limits: Limits,
) -> int:
    import uvicorn

    url = f"http://{_name_of(host)}:{listener.getsockname()[1]}"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # What was imported stays: the collector need not walk through it while answers stream. And through what
            # comes and goes less often: with some thousand agents open, a full round stops everything for a tenth of
            # a second, and finds next to nothing, because what we drop has no cycles.
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 50)
            # A thread that comes back from the disk waits this long for a busy loop; at Python's own 5 ms, several
            # times per commit, four hundred streams lag half as much again.
            sys.setswitchinterval(0.001)
            if self.started:
                print(greeting(url), flush=True)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # The web server would hang up first; who watches an answer sees it finish.
            if drain is not None:
                await _first_of(drain(), self._forced())
            await super().shutdown(sockets)

        async def _forced(self) -> None:
            while not self.force_exit:  # noqa: ASYNC110 - set by a signal handler of the web server
                await asyncio.sleep(FORCE_CHECK)

    logging.getLogger("uvicorn.error").addFilter(_is_worth_saying)
    server = Server(_config(app, limits))
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        print("\nstopped; answers that were not finished go on with the next start", file=sys.stderr)
    except SystemExit:  # the application did not start, and has said why
        return 1
    return 0 if server.started else 1


def _config(app: Any, limits: Limits) -> Any:
    """Return how uvicorn is to serve: within the bounds that an application cannot keep by itself."""
    import uvicorn

    from ..server.bounds import Bounds
    from ..server.deadlines import DeadlineProtocol
    from ..server.gathering import GatheringProtocol

    bounds = Bounds.within(limits)
    return uvicorn.Config(
        app,
        http=DeadlineProtocol.within(bounds),
        ws=GatheringProtocol.within(bounds),
        ws_per_message_deflate=False,  # so that no frame becomes larger than it says
        ws_max_size=limits.frame,
        log_config=None,
        log_level="warning",  # else it says three lines for every socket
        access_log=False,
    )


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _listen(host: str, port: int, *, patience: float = 0.0) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + patience
    while True:
        try:
            return socket.create_server((host, port), family=family, backlog=2048)
        except (OSError, OverflowError) as exc:
            if getattr(exc, "errno", None) == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            raise UsageError(
                f"unable to listen on {host}:{port}; {exc}. "
                "Stop what uses it, or choose another: --port 0 takes a free one"
            ) from exc


def _is_worth_saying(record: logging.LogRecord) -> bool:
    # Streams that stay incomplete when the server stops are how their clients know that they must come back.
    return "returned without completing response" not in str(record.msg)


def _name_of(host: str) -> str:
    if host in ("127.0.0.1", "0.0.0.0", "::", "::1"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _greeting(app: Any, url: str, *, is_demo: bool) -> str:
    if is_started_again():
        return f"  serving again at {url}"
    if not isinstance(app, Everyword):
        return f"\n  everyword {__version__}\n\n  Serving   {url}\n\n  Ctrl+C stops it.\n"
    kinds = ", ".join(sorted(app.agents))
    question = "Ask for a long story" if is_demo else "Ask something with a long answer"
    return f"""
  everyword {__version__}

  Open      {url}
  Agents    {kinds}; at {url}{app.base_path}/{{kind}}/{{name}}
  Log       {app.where}

  Try this  {question}, and in the middle of a sentence, from another terminal:

                kill -9 {own_pid()}

            Start it again with the same command, and watch the page finish the sentence.

  Ctrl+C stops it in good order.
"""
