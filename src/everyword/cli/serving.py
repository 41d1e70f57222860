"""`everyword dev` and `everyword serve`: uvicorn, set up as it is fastest, and a few words to whoever started it."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import importlib.util
import itertools
import logging
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from .. import __version__
from ..demo import Demo
from ..errors import UsageError
from ..extras import missing
from ..observe.logs import configure_logging
from ..server import Everyword, Limits
from ..server.loop_watchdog import LoopWatchdog
from ..server.playground import FEED
from .loading import HERE, load_app
from .mounting import mounted_in
from .playground import playground, playground_beside
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
from .stopping import LastResort, end_at_once

__all__ = ["run_dev", "run_serve"]

log = logging.getLogger("everyword.server")

JUST_KILLED = 0.5
"""Seconds that a port may still be taken by a server whose watcher was killed a moment ago."""

DEV_ORIGINS = ("http://localhost:*", "http://127.0.0.1:*")
DEV_GRACE = 1.0
"""Seconds that answers have to finish when a developer stops the server: the next one goes on with them anyway."""

OPEN_REQUESTS = 1
"""Seconds that requests which are still open have to end once the app has stopped: a body may never end."""

LAST_RESORT = 6.0
"""Seconds after the grace period at which the process ends, whatever hangs."""

FOREIGN_GRACE = 10.0
"""Seconds of grace that an app has which is not ours alone: ours, inside it, has as much by default."""

OF_CLIENTS = ("returned without completing response", "Invalid UTF-8 sequence received from client")
"""What uvicorn says of clients, some of it with a traceback: anybody could fill the log with it."""

HUNG_UP = "the handler is closed"
"""What uvloop raises when an answer is written in the moment in which its client hangs up."""

WITHOUT_AUTHORIZE = (
    "this app has no `authorize`: requests that seem to come from this machine may use every agent, others none. "
    "A reverse proxy on this machine that sets no forwarding header (X-Forwarded-For, X-Real-IP, Forwarded, Via) "
    "makes everybody seem local. Pass Everyword(..., authorize=...) before others can reach it."
)


def run_dev(chosen: argparse.Namespace) -> int:
    """Serve the page in front of an app, or of the demo; an app is started anew when its files change."""
    named = _named(chosen)
    _require_uvicorn()
    if named is not None and chosen.reload and can_reload() and not is_leashed():
        check_app(named)
        return keep_serving(named, _listen(chosen.host, chosen.port, patience=JUST_KILLED), chosen.host)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    app = load_leashed(named) if named is not None else Everyword([Demo], store=chosen.db or "everyword.db")
    inside = mounted_in(app)
    for _, each in inside:
        each.is_development = True
        each.invite(*DEV_ORIGINS)
        each.grace = DEV_GRACE
    shown = app
    if isinstance(app, Everyword):
        shown = playground(app)
    elif inside:
        path, ours = inside[0]
        shown = playground_beside(app, ours, f"{path}{ours.base_path}")
    listener = inherited_listener() or _listen(chosen.host, chosen.port)
    return _run(shown, listener, chosen.host, lambda url: _greeting(app, inside, url, is_demo=named is None), app)


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
    if isinstance(app, Everyword) and not app.door.has_authorize:
        log.warning(WITHOUT_AUTHORIZE)
    listener = _listen(chosen.host, chosen.port)
    return _run(app, listener, chosen.host, lambda url: f"everyword {__version__} serves {chosen.app} at {url}", app)


def _require_uvicorn() -> None:
    for name in ("uvicorn", "websockets", "httptools"):
        if importlib.util.find_spec(name) is None:
            raise missing(name, "server", "serve")


def _run(
    shown: Any,
    listener: socket.socket,
    host: str,
    greeting: Callable[[str], str],
    app: Any,
) -> int:
    """Serve `shown`, which is `app` or stands in front of it, until the process is told to stop."""
    import uvicorn

    ours = app if isinstance(app, Everyword) else None
    grace = ours.grace if ours is not None else FOREIGN_GRACE
    last_resort, signals = LastResort(grace + LAST_RESORT), itertools.count()
    url = f"http://{_name_of(host)}:{listener.getsockname()[1]}"

    watchdog = LoopWatchdog()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            _tune_python()
            watchdog.start()
            if self.started:
                print(greeting(url), flush=True)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # Counted in one step: of two signals that come together, the second is handled in the middle of the first.
            if next(signals):
                end_at_once(sig)
            last_resort.begin()
            super().handle_exit(sig, frame)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # The web server would hang up first; who watches an answer sees it finish.
            if ours is not None:
                await ours.aclose()
            await super().shutdown(sockets)
            watchdog.stop()

    logging.getLogger("uvicorn.error").addFilter(_is_worth_saying)
    seconds = OPEN_REQUESTS if ours is not None else round(grace) + OPEN_REQUESTS
    server = Server(_config(shown, ours.limits if ours is not None else Limits(), seconds))
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        print("\nstopped; answers that were not finished go on with the next start", file=sys.stderr)
    except SystemExit:  # the application did not start, and has said why
        return 1
    return 0 if server.started else 1


def _config(shown: Any, limits: Limits, seconds: int) -> Any:
    """Return how uvicorn is to serve: within the bounds that an application cannot keep by itself."""
    import uvicorn

    from ..server.bounds import Bounds
    from ..server.deadlines import DeadlineProtocol
    from ..server.gathering import GatheringProtocol

    bounds = Bounds.within(limits)
    return uvicorn.Config(
        shown,
        timeout_graceful_shutdown=seconds,
        http=DeadlineProtocol.within(bounds),
        ws=GatheringProtocol.within(bounds),
        ws_per_message_deflate=False,  # so that no frame becomes larger than it says
        ws_max_size=limits.frame,
        log_config=None,
        log_level="warning",  # else it says three lines for every socket
        access_log=False,
    )


def _tune_python() -> None:
    # What was imported stays: the collector need not walk through it while answers stream. And through what comes and
    # goes less often: with some thousand agents open, a full round stops everything for a tenth of a second, and finds
    # next to nothing, because what we drop has no cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    # A thread that comes back from the disk waits this long for a busy loop; at Python's own 5 ms, several times per
    # commit, four hundred streams lag half as much again.
    sys.setswitchinterval(0.001)


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
    # Streams that stay incomplete when the server stops are how their clients know that they must come back, and
    # requests that are cut off then are said to be by the line before.
    raised = record.exc_info[1] if record.exc_info is not None else None
    is_cut_off = isinstance(raised, asyncio.CancelledError) or (
        isinstance(raised, RuntimeError) and HUNG_UP in f"{raised}"
    )
    return not is_cut_off and not any(text in str(record.msg) for text in OF_CLIENTS)


def _name_of(host: str) -> str:
    if host in ("127.0.0.1", "0.0.0.0", "::", "::1"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _greeting(app: Any, inside: Sequence[tuple[str, Everyword]], url: str, *, is_demo: bool) -> str:
    if is_started_again():
        return f"  serving again at {url}"
    if not inside:
        return f"""
  everyword {__version__}

  Serving   {url}

  There is no playground: no Everyword app is mounted in this {type(app).__name__}. Mount one, for instance:
            app.mount("/agents", Everyword([Chat], base_path="/"))

  Ctrl+C stops it.
"""
    (path, ours), *others = inside
    kinds = ", ".join(sorted(ours.classes))
    page = url if ours is app else f"{url}{FEED}/"
    question = "Ask for a long story" if is_demo else "Ask something with a long answer"
    return f"""
  everyword {__version__}

  Agents    {kinds}; at {url}{path}{ours.base_path}/{{kind}}/{{name}}
  Log       {ours.where}
{_others(path, ours, others)}
  Try this  {question}, and in the middle of a sentence, from another terminal:

                kill -9 {own_pid()}

            Start it again with the same command, and watch the page finish the sentence.

  Ctrl+C stops the server. Open this page in a browser:

      {page}
"""


def _others(path: str, ours: Everyword, others: Sequence[tuple[str, Everyword]]) -> str:
    if not others:
        return ""
    places = " and ".join(f"{place}{each.base_path}" for place, each in others)
    has = "has" if len(others) == 1 else "have"
    return f"\n  The playground shows the agents at {path}{ours.base_path}; {places} {has} others.\n"
