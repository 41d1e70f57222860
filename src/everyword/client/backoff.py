"""Delays between attempts. They grow, and are partly random, so that clients do not reconnect all at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..ids import Millis

__all__ = ["Backoff", "ClientClock", "MonotonicClock"]


class ClientClock(Protocol):
    """A clock that can wait. `everyword.testing.ManualClock` is one for tests."""

    def now(self) -> Millis:
        """Return the time in milliseconds; it never decreases."""
        ...

    async def sleep_until(self, at: Millis) -> None:
        """Return once `now() >= at`. Safe to cancel."""
        ...


class MonotonicClock:
    """The monotonic clock of the machine."""

    def now(self) -> Millis:
        return Millis(time.monotonic_ns() // 1_000_000)

    async def sleep_until(self, at: Millis) -> None:
        await asyncio.sleep(max(0, at - self.now()) / 1000)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: `first`, then `factor` times as long each time, at most `most`. After a connection that lasted
    `steady` seconds, the delays start again with `first`."""

    first: float = 0.25
    factor: float = 2.0
    most: float = 10.0
    steady: float = 5.0

    def delay(self, attempt: int, random: Callable[[], float]) -> Millis:
        """Return the delay before attempt 1, 2, …: a random value between half of the full delay and all of it."""
        grown = self.first * self.factor ** min(attempt - 1, 64)
        return Millis(int(min(grown, self.most) * (0.5 + random() / 2) * 1000))
