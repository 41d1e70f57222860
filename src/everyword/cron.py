"""Cron expressions: validation, and the next occurrence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .errors import UsageError
from .ids import Millis

__all__ = ["check_cron", "next_of_cron"]

_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""An expression without an occurrence in the fifty years after this day never occurs."""


def check_cron(rule: str, zone: str) -> None:
    """Raise UsageError if the expression or the time zone is invalid."""
    from croniter import CroniterBadDateError, croniter

    if not croniter.is_valid(rule):
        raise UsageError(
            f"unable to schedule by {rule!r}; it is not a cron expression of five fields, such as '0 9 * * mon-fri'"
        )
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise UsageError(f"unable to schedule in {zone!r}; it is not a time zone, such as 'Europe/Berlin'") from None
    try:
        croniter(rule, _ANY_DAY).get_next(datetime)
    except CroniterBadDateError:
        raise UsageError(
            f"unable to schedule by {rule!r}; it never occurs. Choose a day that its months have."
        ) from None


def next_of_cron(rule: str, zone: str, after: Millis) -> Millis:
    """Return the first occurrence of a cron expression after a moment."""
    from croniter import croniter

    moment = datetime.fromtimestamp(after / 1000, UTC).astimezone(ZoneInfo(zone))
    following: datetime = croniter(rule, moment).get_next(datetime)
    return Millis(round(following.timestamp() * 1000))
