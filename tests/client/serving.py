"""A server in a process of its own, which a test kills: `python -m tests.client.serving <file> <port>`.

Its agent says the words of the question one by one. In its first attempts, as many as the question's `hold` says, it
stands still in the middle; taken up again after a crash, it goes on from what it has said.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import uvicorn

from everyword.server import Everyword
from tests.continuing_agents import ContinuingChat
from tests.forked_processes import ForkedProcess, fork_process

ROOT = Path(__file__).resolve().parents[2]


class Chat(ContinuingChat):
    pass


class Killable:
    """The server's process: it can be killed with `kill -9` and started again on the same port and file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._process: ForkedProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        self._process = fork_process("tests.client.serving", str(self._file), str(self.port))
        self._process.until_ready()

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(process.kill)


class _Announced(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        os.write(1, b"ready\n")


def main(file: str, port: str) -> None:
    """Serve until the process is killed."""
    config = uvicorn.Config(
        Everyword([Chat], store=file), log_level="warning", access_log=False, ws="websockets-sansio"
    )
    asyncio.run(_Announced(config).serve(sockets=[socket.create_server(("127.0.0.1", int(port)))]))
