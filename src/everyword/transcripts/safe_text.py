"""Safe texts for all forms: how times, names and JSON are written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from ..ids import Millis
from .document import ApprovalNote, Person, TranscriptMessage

__all__ = [
    "describe_approval",
    "iso_time",
    "said_by",
    "shown_json",
    "shown_period",
    "shown_time",
    "storable",
]


def storable(text: str) -> str:
    """Return text that UTF-8 and HTML can hold: lone surrogates and NUL are replaced."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def iso_time(at: Millis) -> str:
    """Return a time in ISO 8601, in UTC; the number itself if no calendar has it."""
    moment = _moment(at)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment is not None else str(at)


def shown_time(at: Millis) -> str:
    """Return a time for people, in UTC."""
    moment = _moment(at)
    return moment.strftime("%Y-%m-%d %H:%M UTC") if moment is not None else str(at)


def shown_period(begin: Millis, end: Millis) -> str:
    """Return two times for people, in UTC; one if they are shown alike."""
    first, last = shown_time(begin), shown_time(end)
    return first if first == last else f"{first} to {last}"


def _moment(at: Millis) -> datetime | None:
    try:
        return datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None


LONGEST_INDENTED: Final = 256 * 1024
"""Maximum size in bytes of JSON that is written on several lines; people do not read longer JSON."""

MOST_LEVELS: Final = 10
"""Levels of JSON that is written on several lines. A line of level 900 begins with 1800 spaces, for one digit."""


def shown_json(value: Any) -> str:
    """Return JSON, on several lines unless it is huge; text as it is, if that is all the value is."""
    if isinstance(value, str):
        return value
    encoded = msgspec.json.encode(value)
    if len(encoded) > LONGEST_INDENTED or not _has_few_levels(value):
        return encoded.decode()
    return msgspec.json.format(encoded, indent=2).decode()


def _has_few_levels(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        inside = [each for each in level if isinstance(each, dict | list)]
        if not inside:
            return True
        level = [each for held in inside for each in (held.values() if isinstance(held, dict) else held)]
    return False


_ROLES: Final = {"user": "User", "assistant": "Assistant", "system": "System"}


def said_by(message: TranscriptMessage) -> str:
    """Return whose message it is."""
    return message.author.label if message.author is not None else _ROLES.get(message.role, "Message")


_SETTLED: Final = {
    "waiting": "Waits for approval",
    "approved": "Approved",
    "denied": "Denied",
    "expired": "Not approved in time",
}


def describe_approval(note: ApprovalNote) -> str:
    """Return the result of a request for approval, as one line."""
    by: Person | None = note.by
    who = f" by {by.label}" if by is not None else ""
    when = f", {shown_time(note.at)}" if note.at is not None else ""
    return f"{_SETTLED[note.status]}{who}{when}{f': {note.reason}' if note.reason else ''}"
