"""The server that is killed, in a process per life.

Run as a program it is a nursery: everything is imported once, and every line on its input begets one process, which
opens the file and serves on the port as if it were the first. On its output it says `pid N`, `ready` and `dead`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Final

import uvicorn

from everyword.server import Everyword, Limits
from tests.browser.server_app import listening
from tests.chaos.agents import AGENTS, Notes, Speaker

__all__ = ["EFFECTS", "GRACE", "LOG", "STORE"]

STORE, EFFECTS, LOG = "log.db", "notes.txt", "server.log"
"""What the lives leave behind in their folder."""
GRACE: Final = 0.2


async def live(folder: Path, port: int) -> None:
    """Serve until killed, or told to stop."""
    logging.basicConfig(filename=folder / LOG, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    Speaker.notes = Notes(folder / EFFECTS)
    limits = Limits(requests_per_minute=1_000_000, frames_per_minute=1_000_000)
    app = Everyword(AGENTS, store=str(folder / STORE), limits=limits)
    app.grace = GRACE

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
            await super().startup(sockets)  # type: ignore[arg-type]
            report("ready")

    options = {
        "ws": "everyword.server.uvicorn_websocket:UvicornWebSocketProtocol",
        "log_config": None,
        "access_log": False,
    }
    config = uvicorn.Config(app, timeout_graceful_shutdown=2, log_level="warning", **options)  # type: ignore[arg-type]
    await Server(config).serve(sockets=[listening(port)])


def report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def nurse(folder: Path, port: int) -> None:
    for _ in sys.stdin:
        # Nothing but modules was made so far: no thread, no loop, no file that a child could inherit.
        pid = os.fork()
        if pid == 0:
            asyncio.run(live(folder, port))
            os._exit(0)
        report(f"pid {pid}")
        os.waitpid(pid, 0)
        report("dead")


if __name__ == "__main__":
    nurse(Path(sys.argv[1]), int(sys.argv[2]))
