"""Start processes fast: fork them from one process that has imported everything, which takes seconds.

`fork_process("tests.browser.server_app", file, port)` runs `main(file, port)` of that module in a new process. It is a
real process: it has its own memory, sockets and files, and dies by `kill -9` like any other.
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
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.timeouts import PATIENCE

__all__ = ["ForkedProcess", "fork_process"]

ROOT: Final = Path(__file__).parents[1]

PROGRAMS: Final = (
    *("tests.browser.server_app", "tests.browser.recovery_agents", "tests.browser.example_page"),
    *(
        "tests.client.serving",
        "tests.crash.team",
        "tests.crash.counting",
        "tests.nodes.serving",
        "tests.erasure.killed",
        "tests.attachments.killed",
    ),
)
"""Modules that tests run and kill. They are imported before the fork, so importing them must not start a thread."""


_asking = threading.Lock()
"""Held from a request to its reply: threads that fork at the same time would get each other's process."""


class ForkedProcess:
    """A forked process; `output` is the file descriptor of its standard output."""

    def __init__(self, pid: int, output: int) -> None:
        self.pid = pid
        self._output = os.fdopen(output, "rb")

    def read(self, *, until: str | None) -> str:
        """Return its output, up to the line that begins with `until`, or all of it."""
        lines: list[str] = []
        for line in self._output:
            lines.append(line.decode(errors="replace"))
            if until is not None and lines[-1].startswith(until):
                break
        return "".join(lines)

    def until_ready(self) -> None:
        assert self._output.readline() == b"ready\n", "the server did not start"

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait for its end."""
        self._end(signal.SIGKILL)
        self._output.close()

    def stop(self) -> str:
        """Stop it with SIGTERM, as a deployment does, and wait for its end; return the output that was not read."""
        self._end(signal.SIGTERM)
        with self._output:
            return self._output.read().decode(errors="replace")

    def _end(self, sign: signal.Signals) -> None:
        try:
            watched = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(watched, sign)
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            assert poll.poll(3000 * PATIENCE), f"the server is still there {3 * PATIENCE} s after {sign.name}"
        except ProcessLookupError:
            pass
        finally:
            os.close(watched)


def fork_process(
    module: str,
    *arguments: str,
    preload: tuple[str, ...] = PROGRAMS,
    imported_with: tuple[tuple[str, str], ...] = (),
    **environment: str,
) -> ForkedProcess:
    """Run a module's `main` in a fork that has imported `preload`; `environment` is added to that of the tests.

    The environment in `imported_with` is there when `preload` is imported, and in the fork.
    """
    reading, writing = os.pipe()
    try:
        with _asking:
            fork_server = _fork_server(preload, imported_with)
            socket.send_fds(fork_server, [json.dumps([module, arguments, environment]).encode()], [writing])
            pid = int(fork_server.recv(100))
    finally:
        os.close(writing)
    return ForkedProcess(pid, reading)


@cache
def _fork_server(preload: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> socket.socket:
    """Return the control socket of this test run's fork server, which exits when the socket is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.forked_processes", str(theirs.fileno()), *preload]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], env={**os.environ, **dict(environment)})
    theirs.close()
    atexit.register(_close, ours, process)
    return ours


def _close(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    process.wait()


def _serve_forks(control: socket.socket, preload: list[str]) -> None:
    for name in preload:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    while True:
        request, fds, _, _ = socket.recv_fds(control, 65_536, 1)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _run_child(fds[0], *json.loads(request))
        os.close(fds[0])
        control.send(str(pid).encode())


def _run_child(out: int, module: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Run the module's `main`, then exit without returning to the fork server's code."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(out, 1)
        os.close(out)
        os.environ.update(environment)
        import_module(module).main(*arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - reported here, because the process exits next
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve_forks(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
