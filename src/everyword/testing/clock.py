"""A clock that a test advances by hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from ..errors import UsageError
from ..ids import Millis

__all__ = ["ManualClock"]


class ManualClock:
    """Implements `runtime.clock.Clock`; time passes only in `advance`. `now` is in milliseconds since 1970."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = Millis(now)
        self._sleepers: dict[asyncio.Event, Millis] = {}

    def now(self) -> Millis:
        return self._now

    async def sleep_until(self, at: Millis) -> None:
        while self._now < at:
            woken = asyncio.Event()
            self._sleepers[woken] = at
            try:
                await woken.wait()
            finally:
                del self._sleepers[woken]

    def advance(self, by: float | timedelta) -> None:
        """Let time pass, in seconds or by a timedelta, and wake the tasks that wait for it.

        Raises:
            UsageError: `by` is neither, or negative.
        """
        seconds: object = by.total_seconds() if isinstance(by, timedelta) else by
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
            raise UsageError(f"unable to advance by {by!r}; give seconds or a timedelta, 0 or more")
        self._now = Millis(self._now + round(seconds * 1000))
        for woken, at in self._sleepers.items():
            if at <= self._now:
                woken.set()
