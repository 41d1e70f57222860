"""Lists are sorted by the time of the last change, in milliseconds. What is to have a newer one waits for it."""

from __future__ import annotations

from everyword import Everyword
from everyword.ids import Millis
from everyword.testing import ManualClock

__all__ = ["next_millisecond"]


async def next_millisecond(app: Everyword) -> None:
    """Return when the app's clock shows a later millisecond than now: what changes from then on is newer.

    The clock of an app on PostgreSQL is the database's. It stands still for a while when a reading corrects it.
    """
    clock = (await app.service()).directory.clock
    if isinstance(clock, ManualClock):
        clock.advance(0.001)
    else:
        await clock.sleep_until(Millis(clock.now() + 1))
