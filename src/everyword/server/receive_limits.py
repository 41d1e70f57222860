"""Limits on what one socket has begun to send: fragments, pings, and the time until a message is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .close_codes import REFUSED
from .connection_limits import ConnectionLimits
from .frame_scanner import FrameScanner

__all__ = ["ReceiveLimits"]

Refuse = Callable[[int, str], None]
"""Closes the socket with a code and a reason."""


class ReceiveLimits:
    """Checks one socket's scanner after each read. Calls `refuse` when an incomplete message takes too long."""

    def __init__(self, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop, refuse: Refuse) -> None:
        self._limits, self._loop = limits, loop
        self._refuse: Refuse | None = refuse
        self.deadline: asyncio.TimerHandle | None = None
        """When the incomplete message must be complete."""
        self._messages = 0
        """How many messages were complete at the last check."""
        self._controls = (0, 0.0)
        """How many pings, pongs and closes are allowed so far, and until when."""

    def problem(self, scanner: FrameScanner) -> str | None:
        """Return why the socket has to be closed (with code 1008); None when it is within its limits."""
        if scanner.fragments > self._limits.fragments + scanner.announced // 1024:
            return "unable to take a message in so many fragments"
        if scanner.controls > self._controls[0] and not self._may_ping(scanner.controls):
            return "unable to answer that many pings"
        return None

    def set_deadline(self, scanner: FrameScanner) -> None:
        """Start the deadline of an incomplete message, or stop it if that message is complete."""
        if scanner.messages != self._messages:
            self._messages = scanner.messages
            self.stop()
        if scanner.fragments and self.deadline is None:
            self.deadline = self._loop.call_later(self._limits.message_seconds, self._run_out)

    def stop(self) -> None:
        """Stop the deadline."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def close(self) -> None:
        """Stop the deadline and drop the reference to the socket: it would be a reference cycle."""
        self.stop()
        self._refuse = None

    def _may_ping(self, seen: int) -> bool:
        """Tell whether so many control frames are allowed by now; they are counted by the second."""
        now, (allowed, until) = self._loop.time(), self._controls
        if now >= until:
            self._controls = (seen + self._limits.pings_per_second, now + 1.0)
            return True
        return seen <= allowed

    def _run_out(self) -> None:
        self.deadline = None
        if self._refuse is not None:
            self._refuse(REFUSED, "unable to wait any longer for the rest of a frame")
