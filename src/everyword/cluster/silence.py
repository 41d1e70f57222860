"""Notices that the other end of a link is silent, also if its TCP connection looks fine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["SilenceWatch"]

_LATE: Final = 0.25
"""A timer that is late by this part of the time: this process stood still, and has not read what the peer sent."""


class SilenceWatch:
    """Asks a peer that is silent for half of `seconds`; calls `on_silence` when it was silent for all of them."""

    def __init__(self, seconds: float, ask: Callable[[], None], on_silence: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds, self._ask, self._on_silence = seconds, ask, on_silence
        self._heard = self._loop.time()
        self._due = 0.0
        self._has_asked = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.heard()
        self._check_at(self._heard + self._seconds / 2)

    def heard(self) -> None:
        """Note that the peer has sent something."""
        self._heard, self._has_asked = self._loop.time(), False

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_at(self, when: float) -> None:
        self._due = when
        self._timer = self._loop.call_at(when, self._check)

    def _check(self) -> None:
        now = self._loop.time()
        if not self._has_asked and now < self._heard + self._seconds / 2:
            self._check_at(self._heard + self._seconds / 2)
        elif not self._has_asked or now > self._due + self._seconds * _LATE:
            self._has_asked = True
            self._ask()
            self._check_at(now + self._seconds / 2)
        else:
            self._on_silence()
