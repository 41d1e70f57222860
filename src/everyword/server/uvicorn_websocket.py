"""The WebSocket protocol for uvicorn: `ws=` of `everyword serve`. It joins writes and limits incomplete messages.

uvicorn hands every frame to the transport by itself, and the transport to the kernel: a system call per chunk and
socket, which costs more than everything else that a chunk costs. uvicorn also builds each frame in a dozen steps that
allow for every kind of frame. Ours are whole texts without a header, as bytes, several at a time, through the ASGI
extension that `FRAMES` names. To use it with another server configuration:
`uvicorn --ws everyword.server.uvicorn_websocket:UvicornWebSocketProtocol`. Without it everything works, and takes about
twice as long.

An ASGI application sees a message when it is complete, so it cannot limit messages that a client begins and does not
finish. This protocol does, per socket and for all sockets together.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.protocol import OPEN

from .buffering_transport import MOST_BUFFERED, BufferingTransport
from .close_codes import REFUSED, TOO_BIG, TRY_LATER
from .connection_limits import ConnectionLimits
from .frame_encoding import framed, piece_framed
from .frame_scanner import END, FrameScanner, OversizedMessage
from .incoming_frames import CUT
from .memory_budget import MemoryBudget
from .receive_limits import ReceiveLimits
from .shared_slices import FramePiece
from .socket_transport import FRAMES

__all__ = ["UvicornWebSocketProtocol"]

FRAMES_AT_ONCE: Final = 256
"""Frames of one client that are parsed before other clients have a turn."""

SWALLOWED: Final = 4
"""Messages of up to this many times the limit are read to their end and answered; larger ones close the socket."""

LINGER: Final = 1.0
"""Seconds between a close for what a client sent, and the end of its connection."""

# An empty frame that ends a text message of which the parser has nothing, or the first fragments.
_WHOLE: Final = b"\x81\x80\0\0\0\0"
_REST: Final = b"\x80\x80\0\0\0\0"


class UvicornWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol over a buffering transport, with limits on what a client has begun to send."""

    bounds: ClassVar[ConnectionLimits] = ConnectionLimits()
    unfinished: ClassVar[MemoryBudget[UvicornWebSocketProtocol]] = MemoryBudget(ConnectionLimits().unfinished)
    """Bytes of incomplete messages, over all sockets of this class."""

    @classmethod
    def within(cls, bounds: ConnectionLimits) -> type[UvicornWebSocketProtocol]:
        """Return the protocol with other limits, and a budget of its own."""
        return type(cls.__name__, (cls,), {"bounds": bounds, "unfinished": MemoryBudget(bounds.unfinished)})

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._scanner = FrameScanner(self.config.ws_max_size)
        self._receive_limits = ReceiveLimits(self.bounds, self.loop, self._refuse)
        self._is_upgraded = False
        """True once the upgrade request was read: frames follow."""
        self._rest = b""
        """Received bytes that wait until other clients had their turn."""
        self._oversized: OversizedMessage | None = None
        """The oversized message that the next event of the parser stands for."""
        self._is_refused = False
        """True once the socket was closed for what the client sent; everything after that is ignored."""
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
        """Parse some frames; keep the rest, and pause reading until it is parsed."""
        scanner = self._scanner
        passed, place = scanner.scan(data, 0, FRAMES_AT_ONCE)
        if passed:
            super().data_received(passed)
        if scanner.oversized is not None:
            self._swallow(scanner)
        if self._is_closing or not self._is_within_limits(scanner):
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
            self.transport.pause_reading()  # the application has room, but received bytes still wait here
        return message

    def _swallow(self, scanner: FrameScanner) -> None:
        """Keep only the ends of an oversized message, and pass them on when the message is complete."""
        oversized = scanner.oversized
        assert oversized is not None
        if oversized.is_begun and self.frames:  # the parser has fragments that came before the limit was exceeded
            oversized.head, self.frames = b"".join(self.frames)[:END], []
        if oversized.size > SWALLOWED * self.config.ws_max_size:
            self._refuse(TOO_BIG, "unable to take a frame of this size")
        elif scanner.has_whole_oversized:
            self._oversized = scanner.take_oversized()
            super().data_received(_REST if self._oversized.is_begun else _WHOLE)

    def send_receive_event_to_app(self) -> None:
        oversized, self._oversized = self._oversized, None
        if oversized is None or self.close_sent:
            super().send_receive_event_to_app()
            return
        self.frames = []
        received: Any = {"type": "websocket.receive", "text": oversized.text, CUT: oversized.size}
        self.queue.put_nowait(received)
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    # -- limits -------------------------------------------------------------------------------------------------

    def _is_within_limits(self, scanner: FrameScanner) -> bool:
        """Check what the client has begun to send; close the socket, or the one that holds most of the budget."""
        if (problem := self._receive_limits.problem(scanner)) is not None:
            self._refuse(REFUSED, problem)
            return False
        self._receive_limits.set_deadline(scanner)
        largest = self.unfinished.hold(self, scanner.passed)
        if largest is not None:
            largest._refuse(TRY_LATER, "unable to wait for the rest of a frame; too many are unfinished")
        return largest is not self

    def _refuse(self, code: int, reason: str) -> None:
        """Close the socket; drop what it has begun to send, and ignore what it still sends.

        The connection ends a moment later. If it ended at once with unread data, TCP would reset it, and the client
        would not get the reason.
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
        self._receive_limits.stop()
        self.close_timer = self.loop.call_later(min(LINGER, self.bounds.close_seconds), self.transport.close)

    # -- writing ------------------------------------------------------------------------------------------------

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent and not self.conn.extensions:  # with compression, uvicorn builds each frame
            self.scope["extensions"][FRAMES] = {"write": self.write_frames}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        buffering: Any = BufferingTransport(cast(asyncio.Transport, transport), self.loop, self.bounds.close_seconds)
        super().connection_made(buffering)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        cast(BufferingTransport, self.transport).lost()
        self.unfinished.release(self)
        self._rest, self.frames = b"", []
        self._receive_limits.close()
        if isinstance(scope := getattr(self, "scope", None), dict):
            scope["extensions"].pop(FRAMES, None)  # the scope refers to a method of ours: that is a reference cycle

    async def send(self, message: Any) -> None:
        if message["type"] == FRAMES:
            await self._send_frames(message)
            return
        if message["type"] == "websocket.close" and self.conn.state is OPEN:
            self.writable.set()  # closes a client that does not read as well
        if message["type"] == "websocket.send":
            async with self._sending:
                await super().send(message)
            return
        await super().send(message)

    async def _send_frames(self, message: Any) -> None:
        """Write frames, or pieces of frames, as fast as the client reads."""
        if message["frames"]:
            await self._write(framed(message["frames"]))
        pieces: list[FramePiece] = message.get("pieces", [])
        pieces.reverse()
        async with self._sending:
            while pieces:
                await self._write(piece_framed(pieces.pop()))  # holds only what is still to be sent

    def write_frames(self, texts: list[bytes]) -> list[bytes]:
        """Write frames without waiting; return those that do not fit yet."""
        buffering: Any = self.transport
        while texts and self.writable.is_set():
            self._check_open()
            count = 1 if len(texts) == 1 and len(texts[0]) <= MOST_BUFFERED else _fitting(texts)
            if not count:
                break
            buffering.write_now(framed(texts[:count]))  # these are all frames there are: nothing to join them with
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


def _fitting(texts: list[bytes]) -> int:
    """Return how many of the texts are written at once; a text that is too long for that is sent in slices."""
    size = 0
    for count, text in enumerate(texts):
        size += len(text)
        if size > MOST_BUFFERED:
            return count
    return len(texts)
