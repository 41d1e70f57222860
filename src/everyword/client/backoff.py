"""When to try again: delays that grow, with some chance in them so that clients do not come back all at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..ids import Millis

__all__ = ["Backoff", "Clock", "SystemClock"]


class Clock(Protocol):
    """Tells the time and waits for it; `everyword.testing.ManualClock` is one."""

    def now(self) -> Millis:
        """Return the time in milliseconds; never goes back."""
        ...

    async def sleep_until(self, at: Millis) -> None:
        """Return once `now() >= at`. Safe to cancel."""
        ...


class SystemClock:
    """The machine's steady clock."""

    def now(self) -> Millis:
        return Millis(time.monotonic_ns() // 1_000_000)

    async def sleep_until(self, at: Millis) -> None:
        await asyncio.sleep(max(0, at - self.now()) / 1000)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: `first`, then `factor` times as long each time, at most `most`; a connection that stood for
    `steady` seconds starts the count again."""

    first: float = 0.25
    factor: float = 2.0
    most: float = 10.0
    steady: float = 5.0

    def delay(self, attempt: int, random: Callable[[], float]) -> Millis:
        """Return how long to wait before attempt 1, 2, …: between a half of the full delay and all of it."""
        grown = self.first * self.factor ** min(attempt - 1, 64)
        return Millis(int(min(grown, self.most) * (0.5 + random() / 2) * 1000))
