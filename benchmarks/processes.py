"""Servers as processes of their own, and what the kernel says of them: CPU, memory, bytes written."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = ["PEER", "ROOT", "SERVERS", "Kind", "Server", "Usage", "is_ready", "running", "taken_from"]

ROOT = Path(__file__).parent.parent
PEER = Path(__file__).parent / "peer"
PATIENCE = 20.0
"""Seconds that a server has to start or to stop."""
SETTLING = 0.02
"""Seconds that its threads have to come to rest before they are looked at: longer than a tick of any kernel."""


_SPY = [str(Path(sys.executable).parent / "py-spy"), "record", "--rate", "200", "--threads"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used up to one moment, or between two: seconds, bytes, bytes."""

    cpu: float
    memory: int
    written: int

    def since(self, before: Usage) -> Usage:
        return Usage(self.cpu - before.cpu, self.memory - before.memory, self.written - before.written)


@dataclass(frozen=True)
class Kind:
    """A server that can be started: its command, and the rows it has no answer for."""

    name: str
    title: str
    command: Callable[[Path, int], list[str]]
    stores: bool = True
    rests: bool = False
    """Whether it lets go of what is left alone."""
    source: Path | None = None
    """Where its everyword is, if not in this tree."""
    lacks: frozenset[str] = frozenset()
    is_postgres: bool = False
    """Whether its store is the PostgreSQL that `BENCH_POSTGRES` names; each run has a schema of its own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of its process besides those of this one."""


@dataclass
class Server:
    """A running server. Its data stay in `folder` over a restart."""

    kind: Kind
    folder: Path
    profile: Path | None = None
    """Where a flame graph of its run goes."""
    store: str = ""
    """The store that it shares with other servers; without one it has its own."""
    port: int = 0
    pid: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.port = _free_port()
        command = self.kind.command(self.folder, self.port)
        if self.profile is not None:
            command = [*_SPY, "--output", str(self.profile), "--", *command]
        paths = [str(self.kind.source or ""), os.environ.get("PYTHONPATH", ""), str(ROOT)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "NO_COLOR": "1"}
        environment.update(self.kind.environment)
        environment.pop("BENCH_STORE", None)
        if self.store:
            environment["BENCH_STORE"] = self.store
        elif self.kind.is_postgres:
            environment["BENCH_STORE"] = self._postgres_store()
        elif self.kind.stores:
            environment["BENCH_STORE"] = str(self.folder / "bench.db")
        with (self.folder / "server.log").open("ab") as said:
            self.process = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        deadline = time.monotonic() + PATIENCE
        while not is_ready(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                said_text = (self.folder / "server.log").read_text(errors="replace")[-2000:]
                self.stop()
                raise RuntimeError(f"unable to start {self.kind.name}; it said:\n{said_text}")
            time.sleep(0.01)
        self.pid = self.process.pid if self.profile is None else _child_of(self.process.pid)

    def _postgres_store(self) -> str:
        """Return the address of a schema for this folder, the same after a restart."""
        url = os.environ["BENCH_POSTGRES"]
        schema = "bench_" + re.sub(r"[^a-z0-9]", "_", str(self.folder).lower())[-50:]
        return f"{url}{'&' if '?' in url else '?'}schema={schema}"

    def stop(self, *, by: int = signal.SIGTERM) -> None:
        """End it, with patience first and without it then."""
        process, self.process = self.process, None
        if process is None:
            return
        if process.poll() is None:
            os.kill(self.pid or process.pid, by)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self.profile is not None and self.profile.exists():
            _retitle(self.profile)

    def usage(self) -> Usage:
        """Read all threads' CPU, the memory that is the process's own, and what it had written to disk."""
        self._settle()
        # The kernel's CPU clock of another process: what /proc/<pid>/stat counts, in nanoseconds instead of ticks.
        cpu = time.clock_gettime(~self.pid << 3 | 2)
        memory = _field(f"/proc/{self.pid}/smaps_rollup", "Pss:") * 1024
        return Usage(cpu, memory, _field(f"/proc/{self.pid}/io", "write_bytes:"))

    def _settle(self) -> None:
        """Wait a moment for its threads to sleep: the kernel adds up what a thread took when it stops, or at a tick.

        Who has the last frame of an answer asks while the server is still at work, and would miss most of a short one.
        """
        until = time.monotonic() + SETTLING
        while time.monotonic() < until and any(map(_is_running, Path(f"/proc/{self.pid}/task").iterdir())):
            time.sleep(0.0002)

    def request(self, method: str, path: str) -> bytes:
        """Make one HTTP request and wait for its answer; blocks, since nothing else is going on."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{self.kind.name} answered {method} {path} with {response.status}: {body[:200]!r}")
        return body


def taken_from(kind: Kind, revision: str, folder: Path, *, name: str | None = None) -> Kind:
    """Return the server as it is in another revision of this repository, unpacked into `folder`."""
    folder.mkdir(parents=True)
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", revision, "src"], check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return replace(kind, name=name or kind.name, title=f"{kind.title}, {revision}", source=folder / "src")


@contextmanager
def running(kind: Kind, folder: Path, **options: Any) -> Iterator[Server]:
    """Run a server on an empty folder while the block runs."""
    folder.mkdir(parents=True)
    server = Server(kind, folder, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _everyword(folder: Path, port: int) -> list[str]:
    program = Path(sys.executable).parent / "everyword"
    return [sys.executable, str(program), "serve", f"{ROOT}/benchmarks/servers/chat.py", "--port", str(port)]


def _module(name: str) -> Callable[[Path, int], list[str]]:
    return lambda folder, port: [sys.executable, "-m", f"benchmarks.servers.{name}", str(port)]


def _peer(folder: Path, port: int) -> list[str]:
    storage = folder / "peer"
    storage.mkdir(exist_ok=True)
    shutil.copy(PEER / "node_modules" / ".bench" / "worker.js", folder)
    config = (PEER / "config.capnp").read_text()
    config = config.replace("BENCH_FOLDER", str(storage)).replace("BENCH_PORT", str(port))
    (folder / "config.capnp").write_text(config)
    return [str(PEER / "node_modules" / ".bin" / "workerd"), "serve", str(folder / "config.capnp")]


SERVERS = {
    kind.name: kind
    for kind in (
        Kind("everyword", "everyword, SQLite", _everyword, rests=True),
        Kind("postgres", "everyword, PostgreSQL", _everyword, rests=True, is_postgres=True),
        Kind("peer", "the peer on workerd", _peer, rests=True),
        Kind("stored", "floor with storage", _module("asgi"), lacks=frozenset({"kill"})),
        Kind("floor", "floor", _module("asgi"), stores=False, lacks=frozenset({"cold", "kill"})),
        Kind("bare", "floor on picows", _module("bare"), stores=False, lacks=frozenset({"cold", "kill", "history"})),
    )
}


def is_ready(port: int) -> bool:
    """Tell whether somebody listens."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _retitle(profile: Path) -> None:
    """Let a flame graph be headed by what it shows, not by a command with paths of this machine."""
    picture = profile.read_text(encoding="utf-8")
    picture = re.sub(r'(id="title"[^>]*>)[^<]*', rf"\g<1>{profile.stem}", picture, count=1)
    profile.write_text(re.sub(r"^\s*//.*\n", "", picture, flags=re.MULTILINE), encoding="utf-8")


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_running(thread: Path) -> bool:
    try:
        return thread.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "R"
    except FileNotFoundError:  # it has ended
        return False


def _field(path: str, name: str) -> int:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise RuntimeError(f"unable to read {name} in {path}; it has no such line")
