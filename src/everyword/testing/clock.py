"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio

from ..ids import Millis

__all__ = ["ManualClock"]


class ManualClock:
    """Implements `runtime.clock.Clock`; time passes only in `advance`."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = Millis(now)
        self._sleepers: dict[asyncio.Event, Millis] = {}

    def now(self) -> Millis:
        return self._now

    async def sleep_until(self, at: Millis) -> None:
        while self._now < at:
            rung = asyncio.Event()
            self._sleepers[rung] = at
            try:
                await rung.wait()
            finally:
                del self._sleepers[rung]

    def advance(self, milliseconds: int) -> None:
        """Let time pass and wake whoever waited for it."""
        self._now = Millis(self._now + milliseconds)
        for rung, at in self._sleepers.items():
            if at <= self._now:
                rung.set()
