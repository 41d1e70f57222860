"""`everyword serve --workers N`: a process that starts N workers on one listening socket, and keeps them running.

The supervisor does not import the app. It starts one worker first: if that one cannot start, its message is the only
one, and the supervisor exits with its code. After that it never gives up: a worker that ends is started again, at once
or, if it ended early several times in a row, after a growing delay.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final

from .. import __version__
from ..errors import UsageError
from .startup import listen, url_of
from .worker import Worker
from .worker_channel import STORE
from .worker_settings import WorkerSettings

__all__ = ["Supervisor", "supervise"]

log = logging.getLogger("everyword.workers")

EARLY: Final = 10.0
"""A worker that ends within this many seconds of its start has ended early."""

LONGEST_DELAY: Final = 30.0
"""Seconds before a worker is started again, at most."""


def supervise(chosen: argparse.Namespace) -> int:
    """Run `everyword serve` with several workers; return the exit code.

    Raises:
        UsageError: the address cannot be used, or this system cannot pass a socket to a process.
    """
    if os.name != "posix":
        raise UsageError("unable to run workers; this system cannot pass a socket to them. Leave --workers out")
    with listen(chosen.host, chosen.port) as listener:
        store = {STORE: chosen.store} if chosen.store is not None else {}
        settings = WorkerSettings({**os.environ, **store})
        try:
            return asyncio.run(_supervise(chosen, listener, settings))
        finally:
            settings.close()


async def _supervise(chosen: argparse.Namespace, listener: socket.socket, settings: WorkerSettings) -> int:
    url, count = url_of(chosen.host, listener), chosen.workers
    command = [sys.executable, "-m", "everyword", "serve", chosen.app, "--host", chosen.host, "--workers", str(count)]
    command += ["--log-format", chosen.log_format]

    def greet() -> None:
        print(f"everyword {__version__} serves {chosen.app} at {url} with {count} workers", flush=True)

    running = asyncio.create_task(Supervisor(command, count, listener, settings).run(greet))
    await asyncio.sleep(0)  # the first worker starts; the import below takes some time
    from ..observe.logs import configure_logging

    configure_logging(chosen.log_format)
    return await running


def restart_delay(early_ends: int) -> float:
    """Return the seconds before the next start, after so many early ends in a row."""
    return min(2.0 ** (early_ends - 2), LONGEST_DELAY) if early_ends > 1 else 0.0


class WorkerSlot:
    """Keeps one worker running: starts it again when it ends, and replaces it on request."""

    def __init__(self, worker: Worker, start: Callable[[], Worker], stopping: asyncio.Event) -> None:
        self._current, self._start, self._stopping = worker, start, stopping
        self._replaced = asyncio.Event()
        self._early_ends = 0

    async def keep(self) -> None:
        """Run until the supervisor stops and the worker has ended."""
        while True:
            worker = self._current
            await worker.until_ended()
            if self._current is worker and not self._stopping.is_set():
                await self._pause(worker)
            if self._current is worker:
                if self._stopping.is_set():
                    return
                self._current = self._start()

    async def replace(self) -> Worker:
        """Start another worker; stop the present one when the other is ready, and wait for its end.

        Return the new worker, whose `ready` says whether it took the place. If not, the present one stays.
        """
        new = self._start()
        if await new.until_ready():
            old, self._current, self._early_ends = self._current, new, 0
            self._replaced.set()
            old.send(signal.SIGTERM)
            await old.until_ended()
        return new

    async def _pause(self, worker: Worker) -> None:
        """Say how the worker ended; wait until it may be started again, or has been replaced."""
        is_early = asyncio.get_running_loop().time() - worker.started_at < EARLY
        self._early_ends = self._early_ends + 1 if is_early else 0
        delay, ended = restart_delay(self._early_ends), worker.how_it_ended()
        if delay == 0:
            log.warning("worker %s (pid %d) %s; starting it again", worker.name, worker.pid, ended)
            return
        log.error(
            "worker %s (pid %d) %s; starting it again in %g s, because it has ended %d times in a row within %g s of "
            "its start",
            *(worker.name, worker.pid, ended, delay, self._early_ends, EARLY),
        )
        self._replaced.clear()
        waits = [asyncio.create_task(self._replaced.wait()), asyncio.create_task(self._stopping.wait())]
        await asyncio.wait(waits, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


class Supervisor:
    """Starts, restarts, replaces and stops the workers.

    SIGTERM and SIGINT stop all workers: the first in order, the second at once. SIGHUP replaces them one by one.

    Args:
        command: What runs a worker.
        count: How many workers to keep.
        listener: The socket on which all of them accept connections.
        settings: The environment of each worker.
    """

    def __init__(self, command: Sequence[str], count: int, listener: socket.socket, settings: WorkerSettings) -> None:
        self._command, self._count, self._listener, self._settings = command, count, listener, settings
        self._places: dict[Worker, int] = {}
        """The processes that live, and the place of each."""
        self._slots: list[WorkerSlot] = []
        self._stopping = asyncio.Event()
        self._rolling: asyncio.Task[None] | None = None
        self._must_roll_again = False
        self._exit_code = 0

    async def run(self, greeting: Callable[[], None]) -> int:
        """Run until told to stop; return the exit code. `greeting` is called when the first worker serves."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._roll)
        try:
            return await self._run(greeting)
        finally:
            for worker in self._places:  # something went wrong here: otherwise all have ended
                worker.kill()
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _run(self, greeting: Callable[[], None]) -> int:
        first = self._start(1, is_first=True)
        is_ready = await first.until_ready()
        if self._stopping.is_set():
            await first.until_ended()
            return self._exit_code
        if not is_ready:
            return _code_of(first)
        greeting()
        self._slots = [self._slot(number, first if number == 1 else None) for number in range(1, self._count + 1)]
        if self._must_roll_again:
            self._roll()
        await asyncio.gather(*(slot.keep() for slot in self._slots))
        if self._rolling is not None:
            await self._rolling
        return self._exit_code

    def _slot(self, number: int, worker: Worker | None) -> WorkerSlot:
        def start() -> Worker:
            return self._start(number)

        return WorkerSlot(worker or start(), start, self._stopping)

    def _start(self, number: int, *, is_first: bool = False) -> Worker:
        place = min(set(range(len(self._places) + 1)) - set(self._places.values()))
        environment = self._settings.environment(number, place)
        name = self._settings.name(number)
        worker = Worker(name, self._command, environment, self._listener, is_first=is_first)
        self._places[worker] = place
        worker.ready.add_done_callback(lambda ready: _note_ready(worker, is_ready=ready.result()))
        return worker

    # -- signals -----------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Note which workers have ended."""
        for worker in list(self._places):
            if worker.check_end():
                del self._places[worker]

    def _stop(self, number: signal.Signals) -> None:
        """Stop all workers: in order the first time, at once the second time."""
        if self._stopping.is_set():
            os.write(2, b"\nstopped at once; open turns continue after the next start\n")
            self._exit_code = 128 + number
            self._send_all(signal.SIGKILL)
            return
        self._stopping.set()
        self._listener.close()  # the workers have their own copies, and close them when they begin to drain
        self._send_all(signal.SIGTERM)

    def _send_all(self, number: signal.Signals) -> None:
        for worker in self._places:
            worker.send(number)

    def _roll(self) -> None:
        self._must_roll_again = True  # again, if one is under way: the app may have changed since it began
        if self._slots and (self._rolling is None or self._rolling.done()):
            self._rolling = asyncio.create_task(self._replace_all(), name="rolling restart")

    async def _replace_all(self) -> None:
        while self._must_roll_again and not self._stopping.is_set():
            self._must_roll_again = False
            log.info("replacing the workers, one after the other")
            if await self._replace_each():
                log.info("all workers are replaced")

    async def _replace_each(self) -> bool:
        """Replace the workers one after the other; keep the present ones if a new one cannot start."""
        for slot in self._slots:
            if self._stopping.is_set():
                return False
            new = await slot.replace()
            if not new.ready.result():
                if not self._stopping.is_set():
                    log.error(
                        "unable to replace worker %s; the new one %s. The present workers stay. "
                        "Repair the app and send SIGHUP again",
                        *(new.name, new.how_it_ended()),
                    )
                return False
        return True


def _code_of(worker: Worker) -> int:
    """Return the exit code for a worker that could not start; it has told why, unless it was killed."""
    code = worker.ended.result()
    if code < 0:
        log.error("unable to start; worker %s %s before it served", worker.name, worker.how_it_ended())
    return code if code > 0 else 1


def _note_ready(worker: Worker, *, is_ready: bool) -> None:
    if is_ready:
        log.info("worker %s (pid %d) serves", worker.name, worker.pid)
