"""Time as something that is passed in. Tests pass a clock that they turn by hand."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from ..ids import Millis

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Tells the time and waits for it."""

    def now(self) -> Millis:
        """Return the wall-clock time; never goes back."""
        ...

    async def sleep_until(self, at: Millis) -> None:
        """Return once `now() >= at`; at once when that is already so. Safe to cancel."""
        ...


class SystemClock:
    """The machine's clock; does not go back when the system time is set back."""

    def __init__(self) -> None:
        self._last = Millis(0)

    def now(self) -> Millis:
        now = time.time_ns() // 1_000_000
        if now > self._last:
            self._last = Millis(now)
        return self._last

    async def sleep_until(self, at: Millis) -> None:
        while (left := at - self.now()) > 0:  # noqa: ASYNC110 - waiting for time is the point
            # A long wait is cut so that a clock that was set is noticed within the minute.
            await asyncio.sleep(min(left, 60_000) / 1000)
