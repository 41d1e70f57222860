"""The supervisor of `everyword serve --workers`, with workers that are small scripts: starts, restarts, signals."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from everyword.cli import supervisor as module
from everyword.cli.supervisor import Supervisor, restart_delay, supervise
from everyword.cli.worker_settings import WorkerSettings
from everyword.errors import UsageError
from tests.timeouts import PATIENCE

SCRIPT = """
import os, select, signal, socket, sys
version = open("version").read()
if version == "broken":
    sys.exit(2)
_, control, _ = map(int, os.environ["_EVERYWORD_WORKER"].split())
signals, told = os.pipe()
os.set_blocking(told, False)
signal.set_wakeup_fd(told)
signal.signal(signal.SIGTERM, lambda *_: None)

def note(what):
    with open("notes", "a") as file:
        file.write(f"{os.environ['EVERYWORD_NODE_NAME']} {what}\\n")

def stop():
    if version == "stubborn":
        note("was asked to stop")
        signal.pause()
    note(f"stopped {version}")
    sys.exit(0)

if version == "held":
    go = os.open("go", os.O_RDONLY | os.O_NONBLOCK)
    note("waits")
    if signals in select.select([signals, go], [], [])[0]:
        stop()
note(f"serves {version}")
socket.socket(fileno=control).send(b"r")
select.select([signals], [], [])
stop()
"""
"""A worker. What it does is in the file `version`; what happens to it goes into the pipe `notes`."""


class Run(logging.Handler):
    """A supervisor that runs in this process, with what it logs and what its workers note."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(logging.INFO)
        self.folder = folder
        (folder / "worker.py").write_text(SCRIPT, encoding="utf-8")
        os.mkfifo(folder / "notes")
        os.mkfifo(folder / "go")
        self._fifo = os.open(folder / "notes", os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._fifo, self._read)
        self.notes: list[str] = []
        self.logged: list[str] = []
        self.greetings: list[bool] = []
        self._changed = asyncio.Event()
        self.settings = WorkerSettings({**os.environ, "EVERYWORD_NODE_NAME": "box"})
        self._listener = socket.create_server(("127.0.0.1", 0))
        command = [sys.executable, "-S", "-I", str(folder / "worker.py")]
        self._supervisor = Supervisor(command, count, self._listener, self.settings)
        self.result = asyncio.create_task(self._supervisor.run(lambda: self.greetings.append(True)))

    @property
    def workers(self) -> dict[str, int]:
        """The workers that live, with their processes."""
        return {worker.name: worker.pid for worker in self._supervisor._places}

    @property
    def processes(self) -> list[int]:
        return [worker.pid for worker in self._supervisor._places]

    async def until(self, *notes: str) -> None:
        """Wait until the workers have noted exactly this, in any order, and the supervisor knows which serve."""
        serving = sum("serves" in note for note in notes)
        await self.fact(
            lambda: sorted(self.notes) == sorted(notes) and sum("serves" in line for line in self.logged) == serving
        )

    async def until_logged(self, text: str) -> None:
        await self.fact(lambda: any(text in line for line in self.logged))

    async def fact(self, fact: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not fact():
                assert not self.result.done(), (self.notes, self.result)
                self._changed.clear()
                await self._changed.wait()

    async def end(self) -> int:
        async with asyncio.timeout(PATIENCE):
            code = await self.result
        with suppress(BlockingIOError):
            self._read()
        return code

    def install(self, version: str) -> None:
        """Let workers that start from now on be of this version."""
        (self.folder / "new").write_text(version, encoding="utf-8")
        (self.folder / "new").replace(self.folder / "version")

    def let_go(self) -> None:
        """Let the worker of the version "held" serve."""
        (self.folder / "go").write_text("now", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        self.logged.append(record.getMessage())
        self._changed.set()

    def _read(self) -> None:
        self.notes += os.read(self._fifo, 65_536).decode().splitlines()
        self._changed.set()

    async def aclose(self) -> None:
        self.result.cancel()
        await asyncio.wait([self.result])
        asyncio.get_running_loop().remove_reader(self._fifo)
        os.close(self._fifo)
        self._listener.close()
        self.settings.close()


@asynccontextmanager
async def supervising(folder: Path, version: str, count: int = 2) -> AsyncIterator[Run]:
    (folder / "version").write_text(version, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    run, log = Run(folder, count), logging.getLogger("everyword.workers")
    level = log.level
    log.addHandler(run)
    log.setLevel(logging.INFO)
    try:
        yield run
    finally:
        log.setLevel(level)
        log.removeHandler(run)
        await run.aclose()
        os.chdir(before)


def hear(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


async def test_workers_start_and_all_stop_at_one_signal(tmp_path: Path) -> None:
    async with supervising(tmp_path, "1", count=3) as run:
        await run.until("box-1 serves 1", "box-2 serves 1", "box-3 serves 1")
        assert run.greetings == [True]
        hear(signal.SIGTERM)
        assert await run.end() == 0
        assert sorted(run.notes[3:]) == ["box-1 stopped 1", "box-2 stopped 1", "box-3 stopped 1"]


async def test_an_app_that_cannot_start_is_tried_once(tmp_path: Path) -> None:
    async with supervising(tmp_path, "broken", count=4) as run:
        assert await run.end() == 2
        assert (run.notes, run.greetings) == ([], [])


async def test_a_stop_during_the_start_ends_the_supervisor(tmp_path: Path) -> None:
    async with supervising(tmp_path, "held") as run:
        await run.until("box-1 waits")
        hear(signal.SIGINT)
        assert await run.end() == 0
        assert run.notes == ["box-1 waits", "box-1 stopped held"]


async def test_a_killed_worker_is_started_again(tmp_path: Path) -> None:
    async with supervising(tmp_path, "1") as run:
        await run.until("box-1 serves 1", "box-2 serves 1")
        killed, other = run.workers["box-2"], run.workers["box-1"]
        os.kill(killed, signal.SIGKILL)
        await run.until("box-1 serves 1", "box-2 serves 1", "box-2 serves 1")
        assert run.workers["box-1"] == other and run.workers["box-2"] != killed
        assert f"worker box-2 (pid {killed}) was killed by SIGKILL; starting it again" in run.logged


async def test_a_worker_that_ends_again_and_again_is_started_after_a_growing_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "restart_delay", lambda early_ends: 0.001 * (early_ends - 1))
    async with supervising(tmp_path, "1", count=1) as run:
        await run.until("box-1 serves 1")
        run.install("broken")
        os.kill(run.workers["box-1"], signal.SIGKILL)
        await run.until_logged("because it has ended 3 times in a row within 10 s of its start")
        run.install("2")
        await run.until("box-1 serves 1", "box-1 serves 2")
        assert any("exited with code 2; starting it again in 0.001 s" in line for line in run.logged)


def test_the_delay_doubles_up_to_half_a_minute() -> None:
    assert [restart_delay(n) for n in range(9)] == [0, 0, 1, 2, 4, 8, 16, 30, 30]


async def test_a_rolling_restart_replaces_one_worker_after_the_other(tmp_path: Path) -> None:
    async with supervising(tmp_path, "1") as run:
        await run.until("box-1 serves 1", "box-2 serves 1")
        run.install("2")
        hear(signal.SIGHUP)
        await run.until_logged("all workers are replaced")
        assert run.notes[2:] == ["box-1 serves 2", "box-1 stopped 1", "box-2 serves 2", "box-2 stopped 1"]
        assert run.workers.keys() == {"box-1", "box-2"}


async def test_a_second_request_during_a_rolling_restart_is_another_one(tmp_path: Path) -> None:
    async with supervising(tmp_path, "1", count=1) as run:
        await run.until("box-1 serves 1")
        run.install("held")
        hear(signal.SIGHUP)
        await run.until("box-1 serves 1", "box-1 waits")
        run.install("2")
        hear(signal.SIGHUP)
        run.let_go()
        await run.fact(lambda: run.logged.count("all workers are replaced") == 2)
        assert run.notes[2:] == ["box-1 serves held", "box-1 stopped 1", "box-1 serves 2", "box-1 stopped held"]
        assert len(run.processes) == 1


async def test_a_rolling_restart_with_a_broken_app_leaves_the_workers_as_they_are(tmp_path: Path) -> None:
    async with supervising(tmp_path, "1") as run:
        await run.until("box-1 serves 1", "box-2 serves 1")
        before = run.workers
        run.install("broken")
        hear(signal.SIGHUP)
        await run.until_logged(
            "unable to replace worker box-1; the new one exited with code 2. The present workers stay. "
            "Repair the app and send SIGHUP again"
        )
        assert run.workers == before
        run.install("2")
        hear(signal.SIGHUP)
        await run.until(*[f"box-{n} {what}" for n in (1, 2) for what in ("serves 1", "serves 2", "stopped 1")])


async def test_a_worker_that_dies_while_it_is_replaced_leaves_one_worker(tmp_path: Path) -> None:
    async with supervising(tmp_path, "1", count=1) as run:
        await run.until("box-1 serves 1")
        old = run.workers["box-1"]
        hear(signal.SIGHUP)
        os.kill(old, signal.SIGKILL)
        await run.until_logged("all workers are replaced")
        assert len(run.processes) == 1 and run.workers["box-1"] != old


async def test_a_second_signal_kills_what_does_not_stop(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with supervising(tmp_path, "stubborn") as run:
        await run.until("box-1 serves stubborn", "box-2 serves stubborn")
        serving = run.notes
        hear(signal.SIGTERM)
        await run.until(*serving, "box-1 was asked to stop", "box-2 was asked to stop")
        hear(signal.SIGTERM)
        assert await run.end() == 128 + signal.SIGTERM
        assert "stopped at once" in capfd.readouterr().err


# -- the environment of a worker ------------------------------------------------------------------------------------


def test_the_password_of_the_store_is_in_no_argument_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Sequence[str], dict[str, str]]] = []

    class Recorder(Supervisor):
        async def run(self, greeting: Callable[[], None]) -> int:
            started.append((self._command, self._settings.environment(1, 0)))
            return 0

    monkeypatch.setattr(module, "Supervisor", Recorder)
    store = "postgresql://me:secret@localhost/chats"
    given = {"app": "app.py", "host": "127.0.0.1", "port": 0, "workers": 2, "log_format": "text"}
    assert [supervise(argparse.Namespace(**given, store=each)) for each in (store, None)] == [0, 0]
    (command, environment), (same_command, without) = started
    assert command == same_command and "secret" not in " ".join(command)
    assert environment["_EVERYWORD_WORKER_STORE"] == store and "_EVERYWORD_WORKER_STORE" not in without


def test_links_use_sockets_in_a_folder_that_only_this_user_may_open() -> None:
    settings = WorkerSettings({"PATH": "/bin"})
    try:
        given = [settings.environment(number, number - 1) for number in (1, 2)]
        assert [each["EVERYWORD_NODE_NAME"] for each in given] == [f"{socket.gethostname()}-{n}" for n in (1, 2)]
        assert given[0]["EVERYWORD_NODE_GROUP"] == given[1]["EVERYWORD_NODE_GROUP"] and given[0]["PATH"] == "/bin"
        folder = Path(given[0]["EVERYWORD_NODE_LISTEN"].removeprefix("unix:"))
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        settings.close()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("listen", "second"),
    [
        ("0.0.0.0:7400", "0.0.0.0:7401"),
        ("10.0.0.1:0", "10.0.0.1:0"),
        ("[::]:7400", "[::]:7401"),
        ("unix:/run/a.sock", "unix:/run/a.sock.1"),
        ("unix:/run/a/", "unix:/run/a/"),
        ("nonsense", "nonsense"),
    ],
)
def test_an_address_of_the_machine_is_shared_out(listen: str, second: str) -> None:
    settings = WorkerSettings({"EVERYWORD_NODE_LISTEN": listen, "EVERYWORD_NODE_ADDRESS": "web:9000"})
    given = settings.environment(2, 1)
    assert (given["EVERYWORD_NODE_LISTEN"], given["EVERYWORD_NODE_ADDRESS"]) == (second, "web:9001")


def test_an_address_without_a_port_to_listen_on_is_refused() -> None:
    with pytest.raises(UsageError, match="Set EVERYWORD_NODE_LISTEN"):
        WorkerSettings({"EVERYWORD_NODE_ADDRESS": "web:9000"})
