"""uvicorn with the settings of `everyword serve` and `everyword dev`: limits, shutdown in order, garbage collection."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import itertools
import logging
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..extras import missing
from ..server import Everyword, Limits
from ..server.loop_watchdog import LoopWatchdog
from .forced_exit import ExitDeadline, exit_at_once
from .startup import url_of
from .worker_channel import WorkerChannel

__all__ = ["log", "require_packages", "run_server"]

log = logging.getLogger("everyword.server")

OPEN_REQUESTS = 1
"""Seconds that open requests have to end after the app has stopped: a request body may never end."""

EXIT_DEADLINE = 6.0
"""Seconds after the grace period at which the process exits even if something hangs."""

OTHER_GRACE = 10.0
"""Seconds of grace for an app that is not an `Everyword`: one mounted inside it has as much by default."""

ABOUT_CLIENTS = ("returned without completing response", "Invalid UTF-8 sequence received from client")
"""uvicorn's messages about what clients did, some with a traceback: any client could fill the log with them."""

HUNG_UP = "the handler is closed"
"""uvloop raises this when a response is written while its client disconnects."""


def require_packages() -> None:
    """Check that the packages of the extra `server` are installed.

    Raises:
    """
    for name in ("uvicorn", "websockets", "httptools"):
        if importlib.util.find_spec(name) is None:
            raise missing(name, "server", "serve")


def run_server(
    shown: Any,
    listener: socket.socket,
    host: str,
    greeting: Callable[[str], str],
    app: Any,
    worker: WorkerChannel | None = None,
) -> int:
    """Serve `shown`, which is `app` or wraps it, until the process is told to stop; return the exit code.

    Prints `greeting` of the server's URL when it accepts requests. A worker tells its supervisor instead.
    """
    import uvicorn

    ours = app if isinstance(app, Everyword) else None
    grace = ours.grace if ours is not None else OTHER_GRACE
    deadline, signals = ExitDeadline(grace + EXIT_DEADLINE), itertools.count()
    url = url_of(host, listener)
    watchdog = LoopWatchdog()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            _tune_python()
            watchdog.start()
            if self.started and worker is not None:
                worker.send_ready()
            elif self.started:
                print(greeting(url), flush=True)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # Count in one step: the second of two signals may be handled in the middle of the first.
            if next(signals):
                exit_at_once(sig)
            deadline.start()
            super().handle_exit(sig, frame)
            if worker is not None and self.started:
                self.servers[0].get_loop().call_soon_threadsafe(self.accept_no_more)

        def accept_no_more(self) -> None:
            # The other workers take the connections that wait, and new ones, while this one drains.
            for server in self.servers:
                server.close()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # uvicorn would close the connections first; clients must see their answers finish.
            if ours is not None:
                await ours.aclose()
            await super().shutdown(sockets)
            watchdog.stop()

    logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
    seconds = OPEN_REQUESTS if ours is not None else round(grace) + OPEN_REQUESTS
    server = Server(_config(shown, ours.limits if ours is not None else Limits(), seconds))
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        print("\nstopped; unfinished answers continue after the next start", file=sys.stderr)
    except SystemExit:  # the application did not start, and has logged the reason
        return 1
    return 0 if server.started else 1


def _config(shown: Any, limits: Limits, seconds: int) -> Any:
    """Return uvicorn's configuration, with the limits that an application cannot enforce by itself."""
    import uvicorn

    from ..server.connection_limits import ConnectionLimits
    from ..server.uvicorn_http import UvicornHttpProtocol
    from ..server.uvicorn_websocket import UvicornWebSocketProtocol

    bounds = ConnectionLimits.within(limits)
    return uvicorn.Config(
        shown,
        timeout_graceful_shutdown=seconds,
        http=UvicornHttpProtocol.within(bounds),
        ws=UvicornWebSocketProtocol.within(bounds),
        ws_per_message_deflate=False,  # a compressed frame could become larger than its header says
        ws_max_size=limits.frame,
        log_config=None,
        log_level="warning",  # at "info", uvicorn logs three lines per socket
        access_log=False,
    )


def _tune_python() -> None:
    # Imported modules live until the end: keep them out of every collection. No collection before that: it found 15
    # objects and took 21 ms, before the first response. And collect less often: with thousands of agents open, a full
    # collection stops everything for 0.1 s and finds next to nothing, because our objects form no cycles.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()  # paused since the process began to import
    # A thread that returns from the disk waits this long for a busy event loop, several times per commit. At Python's
    # default of 5 ms, 400 streams have 1.5 times the latency.
    sys.setswitchinterval(0.001)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    # Incomplete streams at shutdown are how clients know that they must reconnect, and the line before already reports
    # the requests that were cut off.
    raised = record.exc_info[1] if record.exc_info is not None else None
    is_cut_off = isinstance(raised, asyncio.CancelledError) or (
        isinstance(raised, RuntimeError) and HUNG_UP in f"{raised}"
    )
    return not is_cut_off and not any(text in str(record.msg) for text in ABOUT_CLIENTS)
