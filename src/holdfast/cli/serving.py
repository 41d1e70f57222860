"""`holdfast dev` and `holdfast serve`: uvicorn, set up as it is fastest, and a few words to whoever started it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from .. import __version__
from ..demo import Demo
from ..errors import UsageError
from ..server import Holdfast
from ..web import Page
from .loading import load_app

__all__ = ["run_dev", "run_serve"]

DEV_ORIGINS = ("http://localhost:*", "http://127.0.0.1:*")
FORCE_CHECK = 0.1
"""Seconds between two looks for a second Ctrl+C."""

DEV_GRACE = 1.0
"""Seconds that answers have to finish when a developer stops the server: the next one goes on with them anyway."""

Drain = Callable[[], Coroutine[Any, Any, None]]

LARGEST_FRAME = 128 * 1024 * 1024
"""What the server reads of one frame. Above `Limits.frame`, so that a frame beyond that is answered and not cut off."""


def run_dev(named: str | None, host: str, port: int, db: str | None) -> int:
    """Serve the page in front of an app, or of the demo."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    if named is not None and db is not None:
        raise UsageError("unable to use --db with an app; the app itself says where: Holdfast(..., store=...)")
    app = load_app(named) if named is not None else Holdfast([Demo], store=db or "holdfast.db")
    shown = app
    if isinstance(app, Holdfast):
        app.invite(*DEV_ORIGINS)
        app.grace = DEV_GRACE
        shown = Page(list(app.agents), base_path=app.base_path, behind=app)
    drain = app.aclose if isinstance(app, Holdfast) else None
    return _run(shown, host, port, lambda url: _greeting(app, url, is_demo=named is None), "warning", drain)


def run_serve(named: str, host: str, port: int) -> int:
    """Serve an app, without a page."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    app = load_app(named)
    drain = app.aclose if isinstance(app, Holdfast) else None
    return _run(app, host, port, lambda url: f"holdfast {__version__} serves {named} at {url}", "info", drain)


def _run(app: Any, host: str, port: int, greeting: Callable[[str], str], level: str, drain: Drain | None = None) -> int:
    try:
        import uvicorn
    except ImportError as exc:
        raise UsageError("unable to serve; uvicorn is missing. Install it: pip install 'holdfast[server]'") from exc

    listener = _listen(host, port)
    url = f"http://{_name_of(host)}:{listener.getsockname()[1]}"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
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
    config = uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=LARGEST_FRAME,
        log_config=None,
        log_level=level,
        access_log=False,
    )
    server = Server(config)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        print("\nstopped; answers that were not finished go on with the next start", file=sys.stderr)
    except SystemExit:  # the application did not start, and has said why
        return 1
    return 0 if server.started else 1


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as exc:
        raise UsageError(
            f"unable to listen on {host}:{port}; {exc}. Stop what uses it, or choose another: --port 0 takes a free one"
        ) from exc


def _is_worth_saying(record: logging.LogRecord) -> bool:
    # Streams that stay incomplete when the server stops are how their clients know that they must come back.
    return "returned without completing response" not in str(record.msg)


def _name_of(host: str) -> str:
    if host in ("127.0.0.1", "0.0.0.0", "::", "::1"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _greeting(app: Any, url: str, *, is_demo: bool) -> str:
    if not isinstance(app, Holdfast):
        return f"\n  holdfast {__version__}\n\n  Serving   {url}\n\n  Ctrl+C stops it.\n"
    kinds = ", ".join(sorted(app.agents))
    question = "Ask for a long story" if is_demo else "Ask something with a long answer"
    return f"""
  holdfast {__version__}

  Open      {url}
  Agents    {kinds}; at {url}{app.base_path}/{{kind}}/{{name}}
  Log       {app.where}

  Try this  {question}, and in the middle of a sentence, from another terminal:

                kill -9 {os.getpid()}

            Start it again with the same command, and watch the page finish the sentence.

  Ctrl+C stops it in good order.
"""
