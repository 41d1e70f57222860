"""Durations that users give: seconds, or a timedelta."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["Duration", "to_millis", "to_seconds"]

Duration = float | timedelta
"""Seconds, or a timedelta."""


def to_seconds(duration: Duration) -> float:
    """Return the seconds of a duration."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def to_millis(duration: Duration) -> int:
    """Return the milliseconds of a duration."""
    return round(to_seconds(duration) * 1000)
