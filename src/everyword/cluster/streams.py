"""Streams of a link: records in both directions, each direction with credit.

A stream begins with OPEN and carries records (DATA) until each end has said END, or one of them RESET. An end that does
not read any more says STOP. The receiver grants as many bytes as its reader has taken, so a reader that is slow stops
the writer, and at most a window of bytes waits for it, whatever the writer does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeAlias

from ..errors import BadLinkFrame, LinkBusy, LinkError, LinkLost
from .frame_writer import FrameWriter
from .link_frames import CREDIT, DATA, END, RESET, STOP
from .remote_failures import read_failure

__all__ = ["LONGEST_RECORD", "RECORD_COST", "WINDOW", "LinkStream", "Sink", "StreamTable"]

WINDOW: Final = 256 * 1024
"""Bytes that may wait for a reader, in each direction of each stream."""

LONGEST_RECORD: Final = 64 * 1024
"""Bytes of one record, about. It must be well below the window, or there would never be credit for it."""

RECORD_COST: Final = 64
"""Bytes that a record counts besides its own: an empty record takes memory, too. Part of the protocol."""

_CREDIT: Final = Struct(">I")

_LAST_NUMBER: Final = 2**32 - 1

Sink: TypeAlias = Callable[[bytes], bytes | None]
"""Takes a record as it arrives; returns what it could not take, as a record. Must not raise."""


class _Senders:
    """Lets one sender at a time send, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._count = 0

    @property
    def is_busy(self) -> bool:
        """True while one sends or waits. The lock alone is free for a moment between two of them."""
        return self._count > 0

    async def __aenter__(self) -> None:
        self._count += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._count -= 1
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._count -= 1
        self._lock.release()


class LinkStream:
    """One end of one stream.

    One task at a time may read. Any number may send; the records of `send_all` stay together.
    """

    def __init__(self, number: int, writer: FrameWriter, forget: Callable[[int], object]) -> None:
        self.number = number
        self._writer, self._forget = writer, forget
        self._credit = WINDOW
        self._room: asyncio.Future[None] | None = None
        """What a sender waits for."""
        self._senders = _Senders()
        self._records: deque[bytes] = deque()
        self._unread = 0
        """Cost of what has arrived and was not granted again."""
        self._taken = 0
        """Cost of what was taken since the last CREDIT."""
        self._news: asyncio.Future[None] | None = None
        """What the reader waits for."""
        self._sink: Sink | None = None
        self._is_finished = False
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[bytes] = loop.create_future()
        """Done when the peer's END has come, with its payload. Records may still wait to be received."""
        self.broken: asyncio.Future[LinkError] = loop.create_future()
        """Done when the stream was reset, or its link was lost while it was open."""

    # -- sending ------------------------------------------------------------------------------------------------

    def write(self, *parts: bytes) -> bool:
        """Send a record without waiting; return False if there is no room for it, or others wait for room."""
        return not self._senders.is_busy and self._put(parts)

    async def send(self, *parts: bytes) -> None:
        """Send a record as soon as there is room.

        Raises:
            LinkError: the stream is broken, or the peer does not read any more.
        """
        if not self.write(*parts):
            await self.send_all([parts])

    async def send_all(self, records: Iterable[tuple[bytes, ...]]) -> None:
        """Send records as there is room; no other record comes between them.

        Raises:
            LinkError: the stream is broken, or the peer does not read any more.
        """
        async with self._senders:
            for parts in records:
                while not self._put(parts):
                    await self._wait_for_room()

    def _put(self, parts: tuple[bytes, ...]) -> bool:
        if self.broken.done():
            raise self.broken.result()
        if self._is_finished:
            raise LinkLost("unable to send on a stream; it was closed")
        cost = RECORD_COST + sum(map(len, parts))
        if cost > self._credit or not self._writer.has_room:
            return False
        self._credit -= cost
        self._writer.put(DATA, self.number, *parts)
        return True

    async def _wait_for_room(self) -> None:
        self._room = room = asyncio.get_running_loop().create_future()
        try:
            if not self._writer.has_room:
                self._writer.wait_for_room(self.number, room)
            await room
        finally:
            self._room = None

    def finish(self, how: bytes = b"") -> None:
        """Send the END of this direction, once."""
        if self._is_finished or self.broken.done():
            return
        self._is_finished = True
        self._writer.put(END, self.number, how)
        _wake(self._room)
        if self.ended.done():
            self._forget(self.number)

    def close(self, how: bytes = b"") -> None:
        """Send END unless it was sent, and read no more. The peer may go on reading what it was sent."""
        self.finish(how)
        if not self.ended.done() and not self.broken.done():
            self._writer.put(STOP, self.number)
        self._forget(self.number)
        self._records.clear()

    def reset(self, why: bytes = b"") -> None:
        """End both directions at once, unless both have ended."""
        if not (self.broken.done() or (self._is_finished and self.ended.done())):
            self._writer.put(RESET, self.number, why)
            self._break(read_failure(why))

    # -- receiving ----------------------------------------------------------------------------------------------

    async def receive(self, sink: Sink | None = None) -> bytes | None:
        """Return the next record; None when the peer has finished.

        While it waits, `sink` is given what arrives, without waking this task.

        Raises:
            LinkError: the stream is broken.
        """
        while not self._records:
            if self.ended.done():
                return None
            if self.broken.done():
                raise self.broken.result()
            self._news, self._sink = asyncio.get_running_loop().create_future(), sink
            try:
                await self._news
            finally:
                self._news = self._sink = None
        record = self._records.popleft()
        self._take(RECORD_COST + len(record))
        return record

    def _take(self, cost: int) -> None:
        self._taken += cost
        if self._taken >= WINDOW // 4 and not self.ended.done():
            self._unread -= self._taken
            self._writer.put(CREDIT, self.number, _CREDIT.pack(self._taken))
            self._taken = 0

    # -- frames of the peer -------------------------------------------------------------------------------------

    def record_came(self, record: bytes) -> None:
        """Take a record of the peer.

        Raises:
            BadLinkFrame: the peer sent more than it was granted, or after its END.
        """
        cost = RECORD_COST + len(record)
        self._unread += cost
        if self._unread > WINDOW or self.ended.done():
            raise BadLinkFrame(f"unable to take a record of stream {self.number}; the other end had no credit for it")
        if self._sink is not None and not self._records:
            rest = self._sink(record)
            if rest is None:
                self._take(cost)
                return
            self._take(len(record) - len(rest))
            record = rest
        self._records.append(record)
        _wake(self._news)

    def end_came(self, how: bytes) -> None:
        """Take the END of the peer."""
        if not self.ended.done():
            self.ended.set_result(how)
            _wake(self._news)
            if self._is_finished:
                self._forget(self.number)

    def credit_came(self, payload: bytes) -> None:
        """Take a CREDIT of the peer.

        Raises:
            BadLinkFrame: it grants more than the window.
        """
        self._credit += _CREDIT.unpack(payload)[0] if len(payload) == _CREDIT.size else WINDOW + 1
        if self._credit > WINDOW:
            raise BadLinkFrame(f"unable to take the credit of stream {self.number}; it is more than the window")
        _wake(self._room)

    def reset_came(self, why: bytes) -> None:
        """Take a RESET of the peer."""
        self._break(read_failure(why))

    def stop_came(self) -> None:
        """Take a STOP of the peer: what is sent would not be read."""
        self.finish()

    def lost(self, error: LinkError) -> None:
        """Note that the link is lost."""
        self._break(error)

    def _break(self, error: LinkError) -> None:
        if not self.broken.done():
            self.broken.set_result(error)
        if not self.ended.done():  # otherwise everything is here, and can still be read
            self._records.clear()
        _wake(self._news)
        _wake(self._room)
        self._forget(self.number)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


class StreamTable:
    """The open streams of one link, by their numbers. The dialer opens odd ones, the listener even ones."""

    def __init__(self, writer: FrameWriter, *, is_dialer: bool, most: int) -> None:
        self._writer, self._most = writer, most
        self._parity = 1 if is_dialer else 0
        self._next = 1 if is_dialer else 2
        self._streams: dict[int, LinkStream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def get(self, number: int) -> LinkStream | None:
        """Return the open stream with this number, if there is one."""
        return self._streams.get(number)

    def open(self) -> LinkStream:
        """Return a new stream of this end.

        Raises:
            LinkBusy: too many streams are open.
        """
        self._check_room()
        while self._next in self._streams:
            self._advance()
        stream = self._add(self._next)
        self._advance()
        return stream

    def accept(self, number: int) -> LinkStream:
        """Return a new stream of the peer.

        Raises:
            LinkBusy: too many streams are open.
            BadLinkFrame: the peer may not use this number.
        """
        if number == 0 or number % 2 == self._parity or number in self._streams:
            raise BadLinkFrame(f"unable to open stream {number}; the other end may not use this number")
        self._check_room()
        return self._add(number)

    def lost(self, error: LinkError) -> None:
        """Break all streams: the link is lost."""
        for stream in list(self._streams.values()):
            stream.lost(error)

    def _check_room(self) -> None:
        if len(self._streams) >= self._most:
            raise LinkBusy(f"unable to open a stream; {self._most} are open on this link, which is the limit")

    def _add(self, number: int) -> LinkStream:
        stream = self._streams[number] = LinkStream(number, self._writer, self._forget)
        return stream

    def _forget(self, number: int) -> None:
        self._streams.pop(number, None)

    def _advance(self) -> None:
        self._next = self._next + 2 if self._next + 2 <= _LAST_NUMBER else 2 - self._parity
