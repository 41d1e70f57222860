"""Cron lines: whether one can be used, and when it comes next."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .errors import UsageError
from .ids import Millis

__all__ = ["check_cron", "next_of_cron"]

_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""A line that does not come within fifty years of this day never does."""


def check_cron(rule: str, zone: str) -> None:
    """Raise UsageError unless the line and the time zone can be used."""
    from croniter import CroniterBadDateError, croniter

    if not croniter.is_valid(rule):
        raise UsageError(
            f"unable to schedule by {rule!r}; it is no cron line of five fields, such as '0 9 * * mon-fri'"
        )
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise UsageError(f"unable to schedule in {zone!r}; it is no time zone, such as 'Europe/Berlin'") from None
    try:
        croniter(rule, _ANY_DAY).get_next(datetime)
    except CroniterBadDateError:
        raise UsageError(
            f"unable to schedule by {rule!r}; it never comes. Choose a day that its months have."
        ) from None


def next_of_cron(rule: str, zone: str, after: Millis) -> Millis:
    """Return the first moment after another at which a cron line comes."""
    from croniter import croniter

    moment = datetime.fromtimestamp(after / 1000, UTC).astimezone(ZoneInfo(zone))
    coming: datetime = croniter(rule, moment).get_next(datetime)
    return Millis(round(coming.timestamp() * 1000))
