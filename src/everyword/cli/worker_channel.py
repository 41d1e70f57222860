"""The worker's side of `everyword serve --workers`: the inherited sockets, and the messages to the supervisor.

`serve` imports this before it listens, also without workers: the module level imports what is imported anyway.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

__all__ = ["STORE", "VARIABLE", "WorkerChannel", "inherited_channel"]

VARIABLE = "_EVERYWORD_WORKER"
"""Environment variable by which the supervisor names the inherited file descriptors: `listener control is_first`."""

STORE = "_EVERYWORD_WORKER_STORE"
"""Environment variable with the store that `--store` names. Not an argument: every user can read those of a process."""

READY = b"r"
"""What a worker sends when it serves."""


class WorkerChannel:
    """The listening socket that all workers share, and the socket to the supervisor.

    The supervisor's end closes when the supervisor dies, however it dies. The worker then drains and exits: a worker
    that stayed would keep the port from the next supervisor.
    """

    def __init__(
        self, listener: socket.socket, control: socket.socket, *, is_first: bool, store: str | None = None
    ) -> None:
        self.listener = listener
        self.store = store
        """The store that `--store` of the supervisor names."""
        self._control = control
        self.is_first = is_first
        """True for the first process of a supervisor: it prints the warnings that would be the same for all."""

    def send_ready(self) -> None:
        """Tell the supervisor that this worker serves; from now on, stop when the supervisor is gone."""
        import threading

        with suppress(OSError):  # the supervisor is gone already: the thread notices it
            self._control.sendall(READY)
        threading.Thread(target=self._wait_for_end, name="supervisor watch", daemon=True).start()

    def _wait_for_end(self) -> None:
        import signal

        self._control.recv(1)  # returns when the supervisor's end is closed: nothing is ever sent
        os.kill(os.getpid(), signal.SIGTERM)


def inherited_channel() -> WorkerChannel | None:
    """Return the channel to the supervisor that started this process; None without one."""
    # Both are not for the processes that the app's own code starts.
    given, store = os.environ.pop(VARIABLE, None), os.environ.pop(STORE, None)
    if given is None:
        return None
    listener, control, is_first = (int(each) for each in given.split())
    for descriptor in (listener, control):
        os.set_inheritable(descriptor, False)
    sockets = socket.socket(fileno=listener), socket.socket(fileno=control)
    return WorkerChannel(*sockets, is_first=bool(is_first), store=store)
