"""WebSockets under uvicorn that gather what they write and bound what they read: `ws=` of `everyword serve`.

uvicorn hands every frame to the transport by itself, and the transport to the kernel: a system call per token and
watcher, which is more than all the rest that a token costs. Besides, it makes every frame in a dozen steps, for
whatever a frame may be; ours are whole texts that lack a header, and come as bytes, many at a time, by the extension
of ASGI that `FRAMES` names. Under a server of your own, name it as
`uvicorn --ws everyword.server.uvicorn_websocket:UvicornWebSocketProtocol`; without it everything works, and takes about
twice as long.

An ASGI application sees a message when it is whole, and so cannot bound what a client begins and does not finish. This
does, for each socket and for all of them together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from struct import pack
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.protocol import OPEN

from .close_codes import REFUSED, TOO_BIG, TRY_LATER
from .connection_limits import ConnectionLimits
from .frame_scanner import END, FrameScanner, OversizedMessage
from .incoming_frames import CUT
from .memory_budget import MemoryBudget
from .shared_slices import SLICE, FramePiece
from .socket_transport import FRAMES

__all__ = ["BufferingTransport", "UvicornWebSocketProtocol", "framed"]

AT_MOST = SLICE
"""Bytes that are kept back at most: as much as a transport takes before it asks to be left alone for a while."""

FRAMES_AT_ONCE: Final = 256
"""Frames of one client that are parsed before everybody else has a turn."""

SWALLOWED: Final = 4
"""Messages of up to this many times the limit are read to their end and answered; larger ones close the socket."""

LINGER: Final = 1.0
"""Seconds between a close for what a client sent, and the end of its connection."""

# How an empty frame ends a text message of which the parser was passed nothing, or the first fragments.
_WHOLE: Final = b"\x81\x80\0\0\0\0"
_REST: Final = b"\x80\x80\0\0\0\0"


class BufferingTransport:
    """A transport that writes at the end of the present turn of the event loop, or when there is enough to write.

    All else is the transport's own; what is kept back is written before it is closed. A client that does not read what
    is in the way is dropped `close_seconds` later.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, close_seconds: float = 10.0
    ) -> None:
        self._transport, self._loop, self._close_seconds = transport, loop, close_seconds
        self._kept: list[bytes] = []
        self._size = 0
        self._end: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Write soon."""
        if not self._kept:
            self._loop.call_soon(self.flush)
        self._kept.append(data)
        self._size += len(data)
        if self._size >= AT_MOST:
            self.flush()

    def write_now(self, data: bytes) -> None:
        """Write behind what was kept back, without keeping anything."""
        if self._kept:
            self.flush()
        self._transport.write(data)

    def flush(self) -> None:
        """Write what was kept back."""
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


def framed(texts: Iterable[bytes]) -> bytes:
    """Return text frames as a server sends them: unmasked, uncompressed, whole (RFC 6455, 5.2)."""
    pieces: list[bytes] = []
    for text in texts:
        pieces += (_header(0x81, len(text)), text)
    return b"".join(pieces)


def _header(first: int, size: int) -> bytes:
    if size < 126:
        return pack("!BB", first, size)
    if size < 65_536:
        return pack("!BBH", first, 126, size)
    return pack("!BBQ", first, 127, size)


def _fragment(piece: FramePiece) -> bytes:
    """Return a part of a frame as a fragment: control frames may come between two of them."""
    (part,) = piece.slice.parts
    first = (0x01 if piece.is_first else 0x00) | (0x80 if piece.is_last else 0x00)
    return _header(first, len(part)) + part


def _fitting(texts: list[bytes]) -> int:
    """Return how many of the texts are written at once; a text that is too long for that is left to slices."""
    size = 0
    for count, text in enumerate(texts):
        size += len(text)
        if size > AT_MOST:
            return count
    return len(texts)


class UvicornWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, over a transport that gathers, with bounds on what a client has begun to send."""

    bounds: ClassVar[ConnectionLimits] = ConnectionLimits()
    unfinished: ClassVar[MemoryBudget[UvicornWebSocketProtocol]] = MemoryBudget(ConnectionLimits().unfinished)
    """What all sockets of this class hold of messages that are not whole."""

    @classmethod
    def within(cls, bounds: ConnectionLimits) -> type[UvicornWebSocketProtocol]:
        """Return the protocol with other bounds, and a budget of its own."""
        return type(cls.__name__, (cls,), {"bounds": bounds, "unfinished": MemoryBudget(bounds.unfinished)})

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._walker = FrameScanner(self.config.ws_max_size)
        self._is_upgraded = False
        """Whether the request for the upgrade was read: what follows are frames."""
        self._rest = b""
        """What came and waits until others had their turn."""
        self._cut: OversizedMessage | None = None
        """The message too large that the next event stands for."""
        self._deadline: asyncio.TimerHandle | None = None
        """When the unfinished message must be whole."""
        self._whole = 0
        """How many messages had come whole when that was last looked at."""
        self._is_refused = False
        """Whether it is closed for what it sent: nothing more of that counts."""
        self._pings = (0, 0.0)
        """How many pings, pongs and closes were allowed so far, and until when."""
        self._sending = asyncio.Lock()
        """Held while a message is sent in fragments: another may not begin between them."""

    # -- reading ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        if not self._is_upgraded:  # the request, as the HTTP protocol has read it, and nothing else
            self._is_upgraded = True
            super().data_received(data)
        elif self._rest:
            self._rest += data
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Parse some frames; the rest waits, and nothing more is read before it was parsed."""
        walker = self._walker
        passed, place = walker.walk(data, 0, FRAMES_AT_ONCE)
        if passed:
            super().data_received(passed)
        if walker.cut is not None:
            self._swallow(walker)
        if self._is_closing or not self._is_within_bounds(walker):
            self.unfinished.release(self)
            return
        if place < len(data):
            self._rest = data[place:]
            self.transport.pause_reading()
            self.loop.call_soon(self._take_rest)

    def _take_rest(self) -> None:
        rest, self._rest = self._rest, b""
        if self._is_closing:
            return
        self._take(rest)
        if not self._rest and not self.read_paused and not self._is_closing:
            self.transport.resume_reading()

    @property
    def _is_closing(self) -> bool:
        return self._is_refused or self.disconnected or self.transport.is_closing()

    async def receive(self) -> Any:
        message = await super().receive()
        if self._rest and not self._is_closing:
            self.transport.pause_reading()  # the application has room, but what is here comes first
        return message

    def _swallow(self, walker: FrameScanner) -> None:
        """Keep nothing of a message that is too large but its ends; hand those over once it is over."""
        cut = walker.cut
        assert cut is not None
        if cut.is_begun and self.frames:  # its first fragments were taken before it was too large
            cut.head, self.frames = b"".join(self.frames)[:END], []
        if cut.size > SWALLOWED * self.config.ws_max_size:
            self._refuse(TOO_BIG, "unable to take a frame of this size")
        elif walker.cut_is_whole:
            self._cut = walker.take_cut()
            super().data_received(_REST if self._cut.is_begun else _WHOLE)

    def send_receive_event_to_app(self) -> None:
        cut, self._cut = self._cut, None
        if cut is None or self.close_sent:
            super().send_receive_event_to_app()
            return
        self.frames = []
        received: Any = {"type": "websocket.receive", "text": cut.text, CUT: cut.size}
        self.queue.put_nowait(received)
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    # -- bounds -------------------------------------------------------------------------------------------------

    def _is_within_bounds(self, walker: FrameScanner) -> bool:
        """Count what the client has begun; close the socket if that is too much, or another if all have too much."""
        if walker.fragments > self.bounds.fragments + walker.announced // 1024:
            self._refuse(REFUSED, "unable to take a message in so many fragments")
        elif walker.controls > self._pings[0] and not self._may_ping(walker.controls):
            self._refuse(REFUSED, "unable to answer that many pings")
        if self._is_closing:
            return False
        if walker.messages != self._whole:
            self._whole = walker.messages
            self._stop_waiting()
        if walker.fragments and self._deadline is None:
            self._deadline = self.loop.call_later(self.bounds.message_seconds, self._run_out)
        largest = self.unfinished.hold(self, walker.passed)
        if largest is not None:
            largest._refuse(TRY_LATER, "unable to wait for the rest of a frame; too many are unfinished")
        return not self._is_closing

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _may_ping(self, seen: int) -> bool:
        """Tell whether so many control frames are allowed by now; they are counted by the second."""
        now, (allowed, until) = self.loop.time(), self._pings
        if now >= until:
            self._pings = (seen + self.bounds.pings_per_second, now + 1.0)
            return True
        return seen <= allowed

    def _run_out(self) -> None:
        self._deadline = None
        self._refuse(REFUSED, "unable to wait any longer for the rest of a frame")

    def _refuse(self, code: int, reason: str) -> None:
        """Close the socket; what it has begun to send is dropped, and what it still sends is not looked at.

        The connection itself is closed a moment later: closed at once, with something unread, it would be reset, and
        the client would not be told why.
        """
        self.unfinished.release(self)
        self._rest, self.frames = b"", []
        if self._is_closing:
            return
        if self.conn.state is not OPEN:
            self.transport.abort()
            return
        self._is_refused = self.close_sent = True
        self.conn.fail(code, reason)
        self.conn.reader.discard()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.resume_reading()
        self.stop_keepalive()
        self._stop_waiting()
        self.close_timer = self.loop.call_later(min(LINGER, self.bounds.close_seconds), self.transport.close)

    # -- writing ------------------------------------------------------------------------------------------------

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent and not self.conn.extensions:  # who agreed on compression gets it, frame by frame
            self.scope["extensions"][FRAMES] = {"write": self.write_frames}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        gathering: Any = BufferingTransport(cast(asyncio.Transport, transport), self.loop, self.bounds.close_seconds)
        super().connection_made(gathering)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        cast(BufferingTransport, self.transport).lost()
        self.unfinished.release(self)
        self._rest, self.frames = b"", []
        self._stop_waiting()
        if isinstance(scope := getattr(self, "scope", None), dict):
            scope["extensions"].pop(FRAMES, None)  # a method of ours in what we hold: else the collector would have to

    async def send(self, message: Any) -> None:
        if message["type"] == FRAMES:
            await self._send_frames(message)
            return
        if message["type"] == "websocket.close" and self.conn.state is OPEN:
            self.writable.set()  # a client that does not read is closed as well
        if message["type"] == "websocket.send":
            async with self._sending:
                await super().send(message)
            return
        await super().send(message)

    async def _send_frames(self, message: Any) -> None:
        """Write frames, or pieces of some, at the pace at which the client reads."""
        if message["frames"]:
            await self._write(framed(message["frames"]))
        pieces: list[FramePiece] = message.get("pieces", [])
        pieces.reverse()
        async with self._sending:
            while pieces:
                piece = pieces.pop()
                is_whole = piece.is_first and piece.is_last
                data = framed(piece.slice.parts) if is_whole else _fragment(piece)
                del piece  # while this waits for the client, it holds only what is still to be sent
                await self._write(data)

    def write_frames(self, texts: list[bytes]) -> list[bytes]:
        """Write frames without waiting; return those that there is no room for yet."""
        gathering: Any = self.transport
        while texts and self.writable.is_set():
            self._check_open()
            count = 1 if len(texts) == 1 and len(texts[0]) <= AT_MOST else _fitting(texts)
            if not count:
                break
            gathering.write_now(framed(texts[:count]))  # all that there is to say: nothing to gather it with
            texts = texts[count:]
        return texts

    async def _write(self, data: bytes) -> None:
        if not self.writable.is_set():
            await self.writable.wait()
        self._check_open()
        self.transport.write(data)

    def _check_open(self) -> None:
        if self.disconnected or self.close_sent or self.conn.state is not OPEN:
            raise ClientDisconnected
