"""The supervisor's side of one worker process: its start, its readiness and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .worker_channel import VARIABLE

__all__ = ["Worker"]


class Worker:
    """One process that serves on the shared listening socket."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        listener: socket.socket,
        *,
        is_first: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.started_at = loop.time()
        self.ready: asyncio.Future[bool] = loop.create_future()
        """True once it serves; False if it ended before."""
        self.ended: asyncio.Future[int] = loop.create_future()
        """Its exit code; negative for the signal that killed it."""
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                command,
                env={**environment, VARIABLE: f"{listener.fileno()} {theirs.fileno()} {int(is_first)}"},
                pass_fds=[listener.fileno(), theirs.fileno()],
                start_new_session=True,  # Ctrl+C reaches the supervisor alone, which forwards it once
            )
        loop.add_reader(self._control, self._hear)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def until_ready(self) -> bool:
        """Wait until it serves or has ended; return whether it served."""
        await asyncio.wait([self.ready])  # not the future itself: it would be cancelled together with its reader
        return self.ready.result()

    async def until_ended(self) -> int:
        """Wait for its end; return the exit code."""
        await asyncio.wait([self.ended])
        return self.ended.result()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        self.send(signal.SIGKILL)
        self._process.wait()
        self.check_end()

    def check_end(self) -> bool:
        """Note the exit code if the process has ended; return whether it has. Called after SIGCHLD."""
        code = self._process.poll()
        if code is None:
            return False
        if not self.ended.done():
            asyncio.get_running_loop().remove_reader(self._control)
            self._hear()  # what it has said before its end
            self._control.close()
            self.ended.set_result(code)
            if not self.ready.done():
                self.ready.set_result(False)
        return True

    def how_it_ended(self) -> str:
        """Return the end as part of a sentence: `was killed by SIGKILL`, `exited with code 1`."""
        code = self.ended.result()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def _hear(self) -> None:
        try:
            said = self._control.recv(64)
        except BlockingIOError:
            return
        except ConnectionError:
            said = b""
        if said and not self.ready.done():
            self.ready.set_result(True)
        if not said:  # the process has ended, or is about to
            asyncio.get_running_loop().remove_reader(self._control)
