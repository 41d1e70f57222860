"""A transport that joins the writes of one iteration of the event loop into one system call."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from .shared_slices import SLICE

__all__ = ["MOST_BUFFERED", "BufferingTransport"]

MOST_BUFFERED: Final = SLICE
"""Bytes that are buffered at most: as much as a transport takes before it pauses its writer."""


class BufferingTransport:
    """Writes at the end of the present iteration of the event loop, or as soon as `MOST_BUFFERED` bytes wait.

    Everything else is passed on to the transport. `close` writes the buffer first. A client that does not read what is
    left is disconnected `close_seconds` later.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, close_seconds: float = 10.0
    ) -> None:
        self._transport, self._loop, self._close_seconds = transport, loop, close_seconds
        # Called for every frame that a client sends: not through `__getattr__`.
        self.is_closing, self.pause_reading = transport.is_closing, transport.pause_reading
        self.resume_reading = transport.resume_reading
        self._kept: list[bytes] = []
        self._size = 0
        self._end: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Write soon."""
        if not self._kept:
            self._loop.call_soon(self.flush)
        self._kept.append(data)
        self._size += len(data)
        if self._size >= MOST_BUFFERED:
            self.flush()

    def write_now(self, data: bytes) -> None:
        """Write the buffer, and then `data` at once."""
        if self._kept:
            self.flush()
        self._transport.write(data)

    def flush(self) -> None:
        """Write the buffer."""
        if self._kept:
            kept, self._kept, self._size = self._kept, [], 0
            self._transport.write(b"".join(kept))

    def close(self) -> None:
        self.flush()
        self._transport.close()
        if self._end is None:
            self._end = self._loop.call_later(self._close_seconds, self._transport.abort)

    def lost(self) -> None:
        """Note that the connection is gone."""
        self._kept, self._size = [], 0
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
