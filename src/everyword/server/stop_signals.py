"""Signals that stop the process.

On a signal, an ASGI server waits for open responses before it shuts the application down, but an event stream stays
open until the application shuts down. So the application handles the signal as well; the server's handler still runs.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

__all__ = ["StopSignals"]

HEARD = (signal.SIGINT, signal.SIGTERM)

_Reaction = Callable[[int, FrameType | None], Any]


class StopSignals:
    """Calls `on_stop` in the running loop when SIGINT or SIGTERM arrives, if the signal already has a handler."""

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._before: dict[int, _Reaction] = {}
        self._ours: dict[int, _Reaction] = {}

    def listen(self) -> None:
        """Begin; does nothing outside the main thread, where no signals arrive."""
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in HEARD:
            before = signal.getsignal(number)
            if not callable(before) or before is signal.default_int_handler:
                continue  # without a handler of the server, the signal kills the process, and should
            self._before[number] = before
            self._ours[number] = partial(self._heard, loop)
            signal.signal(number, self._ours[number])

    def deafen(self) -> None:
        """Restore the former handlers, except those that other code has replaced since. Idempotent."""
        for number, ours in self._ours.items():
            if signal.getsignal(number) is ours:
                signal.signal(number, self._before[number])
        self._ours.clear()

    def _heard(self, loop: asyncio.AbstractEventLoop, number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._on_stop)
        self._before[number](number, frame)
