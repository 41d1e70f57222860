"""A real `everyword serve` process in a scratch folder: its port, its memory, and what it wrote."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import everyword
from tools.attack.forking import Fork, Forks
from tools.client_cost import MIB, memory

__all__ = ["LOG", "MOST_MEMORY", "NOTES", "Serving", "free_port", "read_notes"]

ROOT = Path(__file__).resolve().parents[2]
LOG = "server.log"
NOTES = "notes.txt"
"""Lines that the served agents write when something happens outside of the log."""
RIGHTLY_SAID = ("timeout graceful shutdown exceeded", "is set aside")
"""Errors that the log has for good reason: requests that never end at a stop, fibers that five processes died under."""
STOPPED = b"stopped"
"""How lines begin that the server writes to the terminal when it is stopped."""
MOST_MEMORY = 512 * MIB
"""What a server under attack by frames or requests may take. An idle one takes about 60 MiB."""
PATIENCE = 60.0


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def read_notes(folder: Path) -> Iterator[list[str]]:
    """Yield the lines of the notes, as words."""
    path = folder / NOTES
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield line.split()


class Serving:
    """`everyword serve` of one app, started as often as needed on the same folder and port, as a fork if there are."""

    def __init__(self, folder: Path, app: str, forks: Forks | None = None, **environment: str) -> None:
        self.folder, self.port = folder, free_port()
        self.most_memory = 0
        self._app, self._environment = app, environment
        self._process: Process | Fork | None = None
        self._forks = forks
        self._read = 0
        """Bytes of the log that were looked at."""
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def begin(self, **environment: str) -> None:
        """Start the process, and do not wait for it."""
        source = Path(everyword.__file__).parents[1]
        known = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", **self._environment, **environment}
        app = f"{ROOT / 'tools' / 'attack' / self._app}"
        command = ["serve", app, "--port", f"{self.port}", "--log-format", "json"]
        if self._forks is not None:
            self._process = await self._forks.start(self.folder, self.folder / LOG, known, command)
            return
        with (self.folder / LOG).open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "everyword", *command),
                cwd=self.folder,
                env=known,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=PIPE,
                stderr=log,
            )

    async def until_up(self) -> bool:
        """Wait until it listens; False when it has ended instead."""
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while line := await self._process.stdout.readline():
                if b"serves" in line:
                    return True
        return False

    async def start(self, **environment: str) -> None:
        """Start the process, and wait until it listens."""
        await self.begin(**environment)
        if not await self.until_up():
            raise RuntimeError(f"unable to attack; the server did not start. See {self.folder / LOG}")

    def send_signal(self, sign: signal.Signals) -> None:
        if self.is_running:
            assert self._process is not None
            self._process.send_signal(sign)

    async def gone(self, seconds: float) -> int | None:
        """Wait until the process has ended; return its exit code, or None when it has not ended by then."""
        assert self._process is not None
        try:
            async with asyncio.timeout(seconds):
                return await self._process.wait()
        except TimeoutError:
            return None

    async def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it is gone."""
        if self._process is not None:
            self.send_signal(signal.SIGKILL)
            await self._process.wait()

    def memory(self) -> int:
        """Return how much memory the process has now, in bytes; remembers the most."""
        now = memory(self.pid, "VmRSS")
        self.most_memory = max(self.most_memory, now)
        return now

    def complaints(self, *, may_raise: bool = False) -> Iterator[str]:
        """Yield what the server wrote since the last call and must not have: errors, tracebacks, lines of no logger.

        With `may_raise`, code of the served agents fails on purpose, and the log may say so below the level of errors.
        """
        with (self.folder / LOG).open("rb") as log:
            log.seek(self._read)
            whole, _, rest = log.read().rpartition(b"\n")
            self._read = log.tell() - len(rest)
        for line in whole.splitlines():
            said = _json(line)
            if not line or line.startswith(STOPPED):
                continue
            if said is None:
                yield f"the server wrote {line[:300].decode(errors='replace')!r}"
            elif any(text in said["message"] for text in RIGHTLY_SAID):
                continue
            elif said["level"] in ("error", "critical") or ("exception" in said and not may_raise):
                yield f"the log says {said['message'][:300]!r} {said.get('exception', '')[-600:]}"


def _json(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "level" in found else None
