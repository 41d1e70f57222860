"""Start a real PostgreSQL, or share the one of the test run."""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self

import asyncpg

from tests.postgres.cluster import FAST, PATIENCE
from tests.postgres.installation import find_programs

__all__ = ["OwnPostgres", "Postgres", "PostgresFailed"]

ROOT: Final = Path(__file__).parents[2]

StopMode = Literal["smart", "fast", "immediate"]


class PostgresFailed(Exception):
    """PostgreSQL did not start or stop; the message has what it said."""


class Postgres:
    """A connection to the process that keeps a PostgreSQL. The server runs while any process has one."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._control.settimeout(2 * PATIENCE)
        self._replies = control.makefile("rb")
        try:
            self._facts = self._reply()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Of the Unix socket, which needs no password. Connecting takes 5 ms, over TCP 15."""
        return self._facts["url"]

    @property
    def tcp_url(self) -> str:
        """Of a port of 127.0.0.1, for proxies."""
        return self._facts["tcp_url"]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as `TcpProxy` takes them."""
        return "127.0.0.1", int(self._facts["port"])

    @property
    def folder(self) -> Path:
        """Its files, which are removed when it ends."""
        return Path(self._facts["control"]).parent

    @property
    def keeper(self) -> int:
        """The id of the process that keeps it. When that has ended, nothing is left."""
        return int(self._facts["keeper"])

    @property
    def log(self) -> str:
        """What the server has logged."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    async def connect(self, schema: str | None = None) -> asyncpg.Connection:
        """Open a connection of its superuser; `schema` becomes its search path."""
        return await asyncpg.connect(self.url, server_settings={} if schema is None else {"search_path": schema})

    @classmethod
    def shared(cls, folder: Path) -> Self:
        """Join the server of the processes that share this folder; start it if there is none."""
        known = folder / "postgres-control"
        with (folder / "postgres-lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if known.exists():
                try:
                    return cls(_connected(known.read_text()))
                except (OSError, PostgresFailed):
                    pass  # the last client of that server has left
            server = cls(_started(FAST))
            known.write_text(server._facts["control"])
            return server

    def close(self) -> None:
        """Leave. The last process that leaves waits until the server has ended and its files are removed."""
        try:
            self._control.shutdown(socket.SHUT_WR)
            while self._replies.read(1024):
                pass
        except OSError:
            pass  # its keeper was killed
        finally:
            self._replies.close()
            self._control.close()

    def _reply(self) -> dict[str, str]:
        line = self._replies.readline()
        if not line:
            raise PostgresFailed("the process that keeps PostgreSQL has ended")
        reply: dict[str, str] = json.loads(line)
        if "error" in reply:
            raise PostgresFailed(reply["error"])
        return reply


class OwnPostgres(Postgres):
    """A PostgreSQL of this process alone, which may stop it."""

    @classmethod
    def started(cls, settings: Mapping[str, str] | None = None, *, durable: bool = False) -> Self:
        """Start one; `durable` flushes to the disk at every commit, as a real one does."""
        return cls(_started({**({} if durable else FAST), **(settings or {})}))

    async def start(self) -> None:
        """Start it again, with the same URLs and data; return when it accepts connections."""
        await asyncio.to_thread(self._ask, {"do": "start"})

    async def stop(self, mode: StopMode = "fast") -> None:
        """Stop it: `smart` waits for clients, `fast` disconnects them, `immediate` is a crash of PostgreSQL."""
        await asyncio.to_thread(self._ask, {"do": "stop", "mode": mode})

    async def restart(self, mode: StopMode = "fast") -> None:
        """Stop it and start it again."""
        await self.stop(mode)
        await self.start()

    def _ask(self, request: dict[str, str]) -> None:
        self._control.sendall(json.dumps(request).encode() + b"\n")
        self._reply()


def _started(settings: Mapping[str, str]) -> socket.socket:
    programs = find_programs()
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    # The keeper needs no packages, and starts faster without them (-S). It detaches: `run` waits for its parent only.
    words = [sys.executable, "-S", "-m", "tests.postgres.keeper", str(theirs.fileno()), str(programs)]
    try:
        subprocess.run(
            [*words, json.dumps(dict(settings))],
            cwd=ROOT,
            check=True,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours


def _connected(path: str) -> socket.socket:
    control = socket.socket(socket.AF_UNIX)
    try:
        control.connect(path)
    except OSError:
        control.close()
        raise
    return control
