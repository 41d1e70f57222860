"""Start `everyword serve` many times a minute: each process is a fork of one that has imported everything.

Run as a module it is that process. It reads one JSON list per line: the folder, the log, the environment and the
arguments of the command. It writes `pid N` when it has forked, `ended CODE` when that process is gone, and between them
is what that process writes to its standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

__all__ = ["Fork", "Forks"]

KNOWN: Final = (
    *("everyword.cli.commands.serve", "everyword.cli.web_server", "everyword.cli.app_import", "uvicorn.lifespan.on"),
    *("everyword.server.uvicorn_http", "everyword.server.uvicorn_websocket"),
    *("tests.chaos.agents", "tests.chaos.serving", "everyword.log.sqlite.store", "uvicorn.loops.uvloop"),
)
"""What a server imports; none of it may start a thread by that."""
ROOT: Final = Path(__file__).resolve().parents[2]


class Fork:
    """One process, with as much of asyncio's `Process` as is used here."""

    def __init__(self) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self.stdout = asyncio.StreamReader()
        self._ended = asyncio.Event()

    def send_signal(self, sign: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, sign)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def end(self, code: int) -> None:
        """Note that the process has ended."""
        self.returncode = code
        self.stdout.feed_eof()
        self._ended.set()


class Forks:
    """The process that is forked, and the fork that runs now."""

    def __init__(self) -> None:
        self._mother: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._fork = Fork()
        self._born = asyncio.Event()

    async def start(self, folder: Path, log: Path, environment: dict[str, str], arguments: list[str]) -> Fork:
        """Run `everyword` with these arguments, once the process before is gone."""
        if self._mother is None:
            self._mother = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tools.attack.forking"), cwd=ROOT, env=environment, stdin=PIPE, stdout=PIPE
            )
            self._reading = asyncio.create_task(self._read(self._mother))
        self._fork, self._born = Fork(), asyncio.Event()
        assert self._mother.stdin is not None
        self._mother.stdin.write(json.dumps([str(folder), str(log), environment, arguments]).encode() + b"\n")
        await self._born.wait()
        return self._fork

    async def _read(self, mother: Process) -> None:
        assert mother.stdout is not None
        async for line in mother.stdout:
            match line.split():
                case [b"pid", pid]:
                    self._fork.pid = int(pid)
                    self._born.set()
                case [b"ended", code]:
                    self._fork.end(int(code))
                case _:
                    self._fork.stdout.feed_data(line)

    async def aclose(self) -> None:
        """End the process that is forked; the fork must be gone."""
        if self._mother is not None:
            assert self._mother.stdin is not None
            self._mother.stdin.close()
            await self._mother.wait()
        if self._reading is not None:
            await self._reading


def _live(folder: str, log: str, environment: dict[str, str], arguments: list[str]) -> int:
    from everyword.cli import main

    os.environ.update(environment)
    os.chdir(folder)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return main(arguments)


def _mother() -> None:
    for name in KNOWN:
        import_module(name)
    for line in sys.stdin:
        pid = os.fork()  # nothing but modules was made so far: no thread, no loop
        if pid == 0:
            code = 1
            try:
                code = _live(*json.loads(line))
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.write(1, b"pid %d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"ended %d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _mother()
