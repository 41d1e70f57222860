"""What commands say, in one place: colours, tables, progress and JSON; plain where nobody looks.

Text of conversations comes from anywhere: `clean` takes the control characters out before a terminal obeys them.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TextIO

import msgspec

from ..ids import Millis

__all__ = ["Bar", "Screen", "age", "clean", "count_of", "iso", "measure", "one_line", "size_of"]

STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}

_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
# These turn the direction of what follows, and so can make a line say something else than it holds.
_BIDI = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C))
_UNSAFE = {**_CONTROLS, **_BIDI}

REDRAW = 0.1
"""Seconds between two drawings of a bar."""


class Screen:
    """Where a command writes: results to `out`, everything else to `err`, so that a pipe gets the results alone."""

    def __init__(self, *, is_json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out, self.err = out or sys.stdout, err or sys.stderr
        self.is_json = is_json
        self.is_coloured = _wants_colour(self.out)

    @property
    def width(self) -> int:
        """How many columns there are; files and pipes have no edge."""
        return shutil.get_terminal_size((100, 24)).columns if self.out.isatty() else 10_000

    def style(self, text: str, *names: str) -> str:
        """Return the text with these styles, where styles are wanted."""
        if not self.is_coloured or not text or not names:
            return text
        codes = ";".join(str(STYLES[name]) for name in names)
        return f"\033[{codes}m{text}\033[0m"

    def say(self, line: str = "") -> None:
        print(line, file=self.out)

    def write(self, text: str) -> None:
        """Write a piece of a line, at once."""
        self.out.write(text)
        self.out.flush()

    def note(self, line: str) -> None:
        """Say something beside the result."""
        is_coloured = _wants_colour(self.err)
        print(f"\033[2m{line}\033[0m" if is_coloured else line, file=self.err)

    def document(self, value: Any) -> None:
        """Write one JSON document, indented for people and on one line for pipes."""
        text = msgspec.json.encode(value)
        if self.out.isatty():
            text = msgspec.json.format(text, indent=2)
        print(text.decode(), file=self.out)

    def line(self, value: Any) -> None:
        """Write one line of JSON, at once."""
        self.write(msgspec.json.encode(value).decode() + "\n")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str]] = ()) -> None:
        """Write rows in columns; the last column takes what is left of the line. `styles` are by row, for its cells."""
        sizes = [max((measure(row[at]) for row in [heads, *rows]), default=0) for at in range(len(heads))]
        self.say(self.style(_in_columns(heads, sizes, self.width).rstrip(), "dim"))
        for number, row in enumerate(rows):
            text = _in_columns(row, sizes, self.width)
            chosen = styles[number] if number < len(styles) else ()
            self.say(self._painted(text.rstrip(), sizes, chosen))

    def progress(self, title: str, total: int) -> Bar:
        """Return a bar for long work; it shows where somebody looks, and vanishes when it is done."""
        return Bar(title, total, self.err)

    def _painted(self, text: str, sizes: Sequence[int], styles: Sequence[str]) -> str:
        """Style the columns whose style is named; measured, because a wide letter takes two places."""
        if not self.is_coloured or not any(styles):
            return text
        pieces: list[str] = []
        for at, size in enumerate(sizes):
            is_last = at == len(sizes) - 1
            piece, text = (text, "") if is_last else _split_at(text, size + 2)
            name = styles[at] if at < len(styles) else ""
            bare = piece.rstrip()
            pieces.append(self.style(bare, name) + piece[len(bare) :] if name and bare else piece)
        return "".join(pieces)


class Bar(AbstractContextManager["Bar"]):
    """How far long work is: one line on a terminal, drawn over and over, and wiped in the end."""

    def __init__(self, title: str, total: int, err: TextIO) -> None:
        self._title, self._total, self._err = title, total, err
        self._done, self._is_shown = 0, err.isatty() and total > 0
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()

    def step(self, what: str = "", amount: int = 1) -> None:
        """Count something done; `what` says what is being worked on."""
        self._done += amount
        now = time.monotonic()
        if not self._is_shown or (now - self._drawn_at < REDRAW and self._done < self._total):
            return
        self._drawn_at = now
        share = min(self._done / self._total, 1.0)
        filled = round(share * 24)
        bar = "█" * filled + "░" * (24 - filled)
        columns = shutil.get_terminal_size((100, 24)).columns
        text = f"{self._title} {bar} {share:4.0%} {clean(what)}"
        self._err.write(f"\r\033[K{_fit(text, columns - 1)}")
        self._err.flush()

    def wipe(self) -> None:
        """Take the line away, so that something can be said."""
        if self._is_shown and self._drawn_at:
            self._err.write("\r\033[K")
            self._err.flush()


def clean(text: str) -> str:
    """Return the text without what a terminal would obey: escapes, bells, carriage returns, turned directions."""
    return text.translate(_UNSAFE)


def one_line(text: str) -> str:
    """Return clean text as one line, with blanks for breaks."""
    return " ".join(clean(text).split())


def measure(text: str) -> int:
    """Return how many columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def age(at: Millis | int | None, now: int) -> str:
    """Return how long ago it was, or how far off it is, in a word or two."""
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
    """Return a time as scripts like it."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_of(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def count_of(count: int, noun: str) -> str:
    """Return `1 turn`, `2 turns`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _wants_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _in_columns(row: Sequence[str], sizes: Sequence[int], width: int) -> str:
    cells = [text + " " * (size - measure(text)) for text, size in zip(row[:-1], sizes[:-1], strict=True)]
    before = "".join(f"{cell}  " for cell in cells)
    return before + _fit(row[-1], max(width - measure(before), 12))


def _fit(text: str, columns: int) -> str:
    """Return as much of the text as fits, with a mark where it was cut."""
    if measure(text) <= columns:
        return text
    kept = text[:columns]
    while measure(kept) > columns - 1:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def _split_at(text: str, columns: int) -> tuple[str, str]:
    at = min(columns, len(text))
    while measure(text[:at]) > columns:
        at -= 1
    return text[:at], text[at:]
