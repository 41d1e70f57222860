"""The end of a server's process: in good order if it can, in time whatever hangs, at once if it is told twice."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress

__all__ = ["LastResort", "end_at_once"]

log = logging.getLogger("everyword.server")


class LastResort:
    """Ends the process some time after it was told to stop, if it has not ended by itself.

    A thread of its own: the event loop may be what hangs, or a tool's thread that Python waits for at its exit.
    What ran goes on with the next start, as after `kill -9`.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Start the clock; once."""
        if self._timer is None:
            self._timer = threading.Timer(self._seconds, self._end)
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        log.critical(
            "unable to stop in good order within %g s; something hangs. The process ends now, "
            "and what ran goes on with the next start",
            self._seconds,
        )
        os._exit(1)


def end_at_once(number: int) -> None:
    """End the process because it was told to stop once more; called by a signal handler."""
    # Not by `print`: the signal may have come in the middle of one, which cannot be entered twice.
    with suppress(OSError):
        os.write(2, b"\nstopped at once; what ran goes on with the next start\n")
    os._exit(128 + signal.Signals(number))
