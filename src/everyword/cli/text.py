"""Values as text: without control characters, on one line, as ages, sizes and counts."""

from __future__ import annotations

from datetime import UTC, datetime

from ..ids import Millis

__all__ = ["age", "attached", "clean", "count_of", "iso", "one_line", "size_of"]

_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
# These change the direction of the text that follows, and can make a line read differently from what it contains.
_BIDI = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C))
_UNSAFE = {**_CONTROLS, **_BIDI}


def clean(text: str) -> str:
    """Return the text without characters that control a terminal: escapes, bells, carriage returns, directions.

    The text of conversations comes from anywhere; every command cleans it before printing.
    """
    return text.translate(_UNSAFE)


def one_line(text: str) -> str:
    """Return clean text on one line, with spaces instead of line breaks."""
    return " ".join(clean(text).split())


def age(at: Millis | int | None, now: int) -> str:
    """Return a time relative to now: `3 s ago`, `in 2 min`."""
    if at is None:
        return "-"
    seconds = abs(now - at) / 1000
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            text = f"{seconds / size:.0f} {unit}"
            break
    else:
        text = f"{seconds:.0f} s"
    return f"in {text}" if at > now else f"{text} ago"


def iso(at: Millis | int | None) -> str | None:
    """Return a time in ISO 8601, in UTC."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_of(count: float) -> str:
    """Return a number of bytes with a unit: `1.5 KiB`."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def own_databases(count: int) -> str:
    """Return `, 2 SQL databases`; nothing for none."""
    return f", {count_of(count, 'SQL database')}" if count else ""


def attached(count: int) -> str:
    """Return `, 2 attachments`; nothing for none."""
    return f", {count_of(count, 'attachment')}" if count else ""


def count_of(count: int, noun: str) -> str:
    """Return `1 turn`, `2 turns`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
