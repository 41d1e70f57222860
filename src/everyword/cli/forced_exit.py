"""Ends the server's process when the orderly shutdown takes too long, or when a second signal asks for it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress

__all__ = ["ExitDeadline", "exit_at_once"]

log = logging.getLogger("everyword.server")


class ExitDeadline:
    """Exits the process some time after `start`, if it has not ended by then.

    Uses a thread: the event loop may be what hangs, or a tool's thread that Python joins at exit. Open turns continue
    after the next start, as after `kill -9`.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Start the timer; later calls do nothing."""
        if self._timer is None:
            self._timer = threading.Timer(self._seconds, self._exit)
            self._timer.daemon = True
            self._timer.start()

    def _exit(self) -> None:
        log.critical(
            "unable to shut down within %g s; something hangs. The process exits now, "
            "and open turns continue after the next start",
            self._seconds,
        )
        os._exit(1)


def exit_at_once(number: int) -> None:
    """Exit because of a second signal; called by a signal handler."""
    # Not with `print`: the signal may have interrupted a `print`, which is not reentrant.
    with suppress(OSError):
        os.write(2, b"\nstopped at once; open turns continue after the next start\n")
    os._exit(128 + signal.Signals(number))
