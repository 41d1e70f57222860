"""Lists are sorted by the time of the last change, in milliseconds. What is to have a newer one waits for it."""

from __future__ import annotations

from everyword.ids import Millis
from everyword.runtime.clock import SystemClock

__all__ = ["next_millisecond"]


async def next_millisecond() -> None:
    """Return when the clock shows a later millisecond than now: what changes from then on is newer."""
    clock = SystemClock()
    await clock.sleep_until(Millis(clock.now() + 1))
