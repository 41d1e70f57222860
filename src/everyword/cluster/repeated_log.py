"""Log lines that would be the same many times a second: each is written once, then at most once a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

__all__ = ["RepeatedLog"]

INTERVAL: Final = 60.0
"""Seconds between two lines about the same thing."""

MOST_KEYS: Final = 256
"""Things that are told apart: a peer that has not proved itself chooses what it is called."""


@dataclass(slots=True)
class _Line:
    at: float
    repeats: int = 0


class RepeatedLog:
    """Writes to a logger. A line says how often the same happened since the last one."""

    def __init__(self, log: logging.Logger, level: int, now: Callable[[], float] = time.monotonic) -> None:
        self._log, self._level, self._now = log, level, now
        self._lines: dict[Hashable, _Line] = {}

    def write(self, key: Hashable, text: object) -> None:
        """Write a line about `key`, unless there was one within the last minute."""
        now = self._now()
        if key not in self._lines and len(self._lines) >= MOST_KEYS:
            self._lines = {each: line for each, line in self._lines.items() if now - line.at < INTERVAL}
            key = key if len(self._lines) < MOST_KEYS else None
        last = self._lines.get(key)
        if last is None:
            self._log.log(self._level, "%s", text)
        elif now - last.at < INTERVAL:
            last.repeats += 1
            return
        else:
            self._log.log(self._level, "%s (%d times since the last message about it)", text, last.repeats + 1)
        self._lines[key] = _Line(now)
