"""Processes that tests start by the hundred, as forks of one that has imported everything, which takes seconds.

`born("tests.browser.serving", file, port)` runs `main(file, port)` of that module in a process of its own. It is
a real process: it has its own memory, sockets and files, and dies by `kill -9` like any other.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE

__all__ = ["Child", "born"]

ROOT: Final = Path(__file__).parents[1]

PROGRAMS: Final = (
    *("tests.browser.serving", "tests.browser.recovering", "tests.browser.showing"),
    *("tests.client.serving", "tests.crash.team", "tests.crash.counting"),
)
"""What is run by tests that kill it; all of it is imported before, and none of it may start a thread by that."""


class Child:
    """A process that was born; `said` is what it writes to its standard output."""

    def __init__(self, pid: int, said: int) -> None:
        self._pid = pid
        self._said = os.fdopen(said, "rb")

    def read(self, *, until: str | None) -> str:
        """Return what it says, to the line that begins with `until` or to its end."""
        said: list[str] = []
        for line in self._said:
            said.append(line.decode(errors="replace"))
            if until is not None and said[-1].startswith(until):
                break
        return "".join(said)

    def until_ready(self) -> None:
        assert self._said.readline() == b"ready\n", "the server did not start"

    def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to stop, as a deployment does, and wait until it has."""
        self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> None:
        try:
            watched = os.pidfd_open(self._pid)
        except ProcessLookupError:
            return self._said.close()
        try:
            signal.pidfd_send_signal(watched, sign)
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            assert poll.poll(3000 * PATIENCE), f"the server is still there {3 * PATIENCE} s after {sign.name}"
        except ProcessLookupError:
            pass
        finally:
            os.close(watched)
        return self._said.close()


def born(module: str, *arguments: str, knowing: tuple[str, ...] = PROGRAMS, **environment: str) -> Child:
    """Run a module's `main` in a process that has imported `knowing`; `environment` is added to that of the tests."""
    reading, writing = os.pipe()
    try:
        nursery = _nursery(knowing)
        socket.send_fds(nursery, [json.dumps([module, arguments, environment]).encode()], [writing])
        pid = int(nursery.recv(100))
    finally:
        os.close(writing)
    return Child(pid, reading)


@cache
def _nursery(knowing: tuple[str, ...]) -> socket.socket:
    """Return the way to a nursery of this test run, which ends when nobody holds the other end any more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.nursery", str(theirs.fileno()), *knowing]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(_close, ours, process)
    return ours


def _close(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    process.wait()


def _bear(control: socket.socket, knowing: list[str]) -> None:
    for name in knowing:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever is dead is gone
    while True:
        request, fds, _, _ = socket.recv_fds(control, 65_536, 1)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _live(fds[0], *json.loads(request))
        os.close(fds[0])
        control.send(str(pid).encode())


def _live(out: int, module: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Run what was asked for, and nothing afterwards."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(out, 1)
        os.close(out)
        os.environ.update(environment)
        import_module(module).main(*arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - nobody else is there to say it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _bear(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
