"""Writes the frames of one link: what is written in one iteration of the event loop is one system call."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Final

from .link_frames import HEADER

__all__ = ["MOST_PENDING", "FrameWriter"]

MOST_PENDING: Final = 1024 * 1024
"""Bytes that may wait for the end of the iteration, and as many again in the transport. Then streams wait."""

WOKEN_AT_ONCE: Final = 32
"""Streams that are woken when there is room. More would only find that the others have used it up."""


class FrameWriter:
    """Collects frames and hands them to the transport together.

    Records wait for `has_room`. Other frames are always taken: they are short, and there are few per stream.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pending: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._is_waking = False
        self._waiting: dict[int, asyncio.Future[None]] = {}
        """Streams that wait for room, by their numbers; the first has waited longest."""

    @property
    def has_room(self) -> bool:
        """True if a record may be written now."""
        return not self._is_paused and self._size < MOST_PENDING

    def begin(self, transport: asyncio.Transport) -> None:
        """Write to this transport."""
        transport.set_write_buffer_limits(high=MOST_PENDING)
        self._transport = transport

    def put(self, kind: int, stream: int, *parts: bytes) -> None:
        """Write a frame at the end of this iteration. Ignored when the link is lost."""
        if self._transport is None:
            return
        if not self._pending:
            self._loop.call_soon(self.flush)
        size = sum(map(len, parts))
        self._pending.append(HEADER.pack(size, kind, stream))
        self._pending += parts
        self._size += size + HEADER.size

    def flush(self) -> None:
        """Write now."""
        if self._pending and self._transport is not None:
            pending, self._pending, self._size = self._pending, [], 0
            self._transport.write(b"".join(pending))
            self._wake()

    def wait_for_room(self, stream: int, waiting: asyncio.Future[None]) -> None:
        """Complete the future when there is room; at most one per stream."""
        self._waiting.pop(stream, None)
        self._waiting[stream] = waiting
        self._wake()

    def pause(self) -> None:
        """Note that the transport has taken as much as it should."""
        self._is_paused = True

    def resume(self) -> None:
        """Note that the transport has room again."""
        self._is_paused = False
        self._wake()

    def end(self) -> None:
        """Note that the link is lost: drop what waits."""
        self._transport, self._pending, self._size = None, [], 0
        self._waiting.clear()

    def _wake(self) -> None:
        if self._waiting and self.has_room and not self._is_waking:
            for stream in list(islice(self._waiting, WOKEN_AT_ONCE)):
                waiting = self._waiting.pop(stream)
                if not waiting.done():
                    waiting.set_result(None)
            # Those that were woken write first; what they leave is for the next ones.
            self._is_waking = True
            self._loop.call_soon(self._wake_more)

    def _wake_more(self) -> None:
        self._is_waking = False
        self._wake()
