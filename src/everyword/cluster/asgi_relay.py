"""The edge's side of a relay: a request or socket came in here, and the node at the other end of a link serves it.

Two tasks run per client: one sends up what the client sends, one sends down what the owner sends. A text that the owner
sends to a socket is written as it arrives, without waking a task, if the server here has the extension `FRAMES`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from starlette.types import Message, Receive, Scope, Send

from ..errors import EverywordError, LinkBusy, LinkError
from .kept_socket import KeptSocket
from .link import NodeLink
from .link_frames import LONGEST_PAYLOAD
from .purposes import RELAY
from .relay_header import FRAMES, byte_pairs, header_of
from .relay_records import (
    ACCEPT,
    BODY,
    BYTES,
    BYTES_PART,
    CUT,
    FIRST_PART,
    LAST_PART,
    PROGRESS,
    START,
    TEXT,
    TEXT_PART,
    TEXTS,
    TEXTS_AT,
    Accept,
    Close,
    MessageJoiner,
    Progress,
    Start,
    body_records,
    close_of,
    packed,
    packed_at,
    part_records,
    read_struct,
    unpacked,
    unpacked_at,
)
from .relayed_requests import CUT_TEXT
from .settings import LinkSettings
from .streams import LinkStream

__all__ = ["relay"]

log = logging.getLogger("everyword.cluster")

COME_BACK: Final = 1012
"""Service restart: the client reconnects by itself."""

TRY_LATER: Final = 1013
"""Too much at once: the client reconnects after a while."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
"""Seconds before a socket is opened at an owner again after an owner did not take it. Each pause is twice the last."""

MOVE_SECONDS: Final = 30.0
"""Seconds in which some owner has to take a socket that moves. Looking for the owner is not counted."""

SETTLED_SECONDS: Final = 5.0
"""An owner that served a socket for so long has taken it."""

CLOSE_SECONDS: Final = 10.0
"""How long a client has to take what the owner sent before it closed the socket or ended the response."""


FindOwner: TypeAlias = Callable[[], Awaitable[NodeLink]]
"""Returns the link to the node that owns the agent now; raises an `EverywordError` if there is none in time."""


async def relay(
    link: NodeLink,
    scope: Scope,
    receive: Receive,
    send: Send,
    attached: bytes = b"",
    *,
    find_owner: FindOwner | None = None,
) -> None:
    """Let the node at the other end of the link serve this request or socket; return when it is over.

    The socket must not be accepted yet, the response not begun. `attached` is given to the owner as it is.

    When the owner is lost, a request gets 503 with `retry-after`, or its response is cut. A socket is taken over by the
    next owner, which `find_owner` finds, if it is known how far its client is; else it is closed with 1012.
    """
    if scope["type"] != "websocket":
        await _HttpRelay(scope, receive, send).run(link, header_of(scope, attached))
        return
    socket = _SocketRelay(scope, receive, send, may_move=find_owner is not None)
    await socket.run(link, header_of(scope, attached))
    if find_owner is not None:
        await _move(socket, find_owner, scope, attached)


async def _move(socket: _SocketRelay, find_owner: FindOwner, scope: Scope, attached: bytes) -> None:
    """Take the socket to the next owner whenever its owner is lost; close it if no owner takes it in time."""
    loop, kept = asyncio.get_running_loop(), socket.kept
    pause = spent = 0.0
    while socket.is_moving:
        if spent >= MOVE_SECONDS:
            log.warning("unable to move a socket; no owner took it in %g s. It is closed", MOVE_SECONDS)
            await socket.give_up()
            return
        await asyncio.sleep(pause)
        header = header_of(scope, attached, kept.resume, kept.cursor)
        try:
            if len(header) >= LONGEST_PAYLOAD:
                raise LinkBusy(f"unable to move a socket; what its next owner needs has {len(header)} bytes")
            link = await find_owner()
        except EverywordError as exc:
            log.info("unable to find another owner for a socket; it is closed: %s", exc)
            await socket.give_up()
            return
        before, began = (kept.cursor, kept.decided), loop.time()
        socket.begin_again()
        await socket.run(link, header)
        lasted = loop.time() - began
        if (kept.cursor, kept.decided) != before or lasted >= SETTLED_SECONDS:
            pause = spent = 0.0
            continue
        spent += pause + lasted
        pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)


class _Relay(ABC):
    """What relays of requests and of sockets share."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._left = b""
        """How the client left, for the owner."""

    async def run(self, link: NodeLink, header: bytes) -> None:
        try:
            stream = link.open(RELAY + header)
        except LinkError as exc:
            await self._not_opened(exc)
            return
        up = asyncio.create_task(self._up(stream), name="relay from a client")
        down = asyncio.create_task(self._down(stream), name="relay to a client")
        try:
            await self._until_over(stream, up, down)
        finally:
            up.cancel()
            down.cancel()
            await asyncio.wait({up, down})
            stream.close(self._left or (stream.ended.result() if stream.ended.done() else b""))
        await self._end(stream, _failure_of(up), _failure_of(down))

    async def _until_over(self, stream: LinkStream, up: asyncio.Task[None], down: asyncio.Task[None]) -> None:
        """Wait until the client or the owner is done, or the owner is lost."""
        over: set[asyncio.Future[Any]] = {up, down, stream.broken, stream.ended}
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        if stream.ended.done() and not up.done():
            # The owner is done. What it has sent is here; a client that does not take it is not waited for.
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED, timeout=CLOSE_SECONDS)

    async def _end(self, stream: LinkStream, up: BaseException | None, down: BaseException | None) -> None:
        failure = down if down is not None and not isinstance(down, OSError) else up
        if not stream.ended.done() and (stream.broken.done() or isinstance(failure, LinkError)):
            with suppress(OSError, RuntimeError):  # the client may be gone, too
                await self._owner_lost()
        elif failure is not None and not isinstance(failure, OSError | LinkError):
            raise failure
        elif stream.ended.done():
            with suppress(OSError, RuntimeError):
                await self._owner_done(stream.ended.result())

    async def _up(self, stream: LinkStream) -> None:
        """Send up what the client sends, until it is gone; ignore it when the owner does not read any more."""
        while not self._has_left(message := await self._receive()):
            with suppress(LinkError):
                await self._send_up(stream, message)

    async def _not_opened(self, error: LinkError) -> None:
        """Tell the client that the owner cannot be asked."""
        await self._owner_lost()

    @abstractmethod
    def _has_left(self, message: Message) -> bool:
        """Return True if the message says that the client is gone."""

    @abstractmethod
    async def _send_up(self, stream: LinkStream, message: Message) -> None:
        """Send a message of the client."""

    @abstractmethod
    async def _down(self, stream: LinkStream) -> None:
        """Send down what the owner sends, until its end."""

    @abstractmethod
    async def _owner_done(self, how: bytes) -> None:
        """Tell the client how the owner ended."""

    @abstractmethod
    async def _owner_lost(self) -> None:
        """Tell the client that the owner is lost."""


def _failure_of(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


class _HttpRelay(_Relay):
    """One request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._has_begun = False

    def _has_left(self, message: Message) -> bool:
        return bool(message["type"] == "http.disconnect")

    async def _send_up(self, stream: LinkStream, message: Message) -> None:
        await stream.send_all(body_records(message.get("body", b""), message.get("more_body", False)))

    async def _down(self, stream: LinkStream) -> None:
        while (record := await stream.receive()) is not None:
            if record[:1] == BODY:
                await self._send({"type": "http.response.body", "body": record[2:], "more_body": record[1:2] == b"\1"})
            elif record[:1] == START:
                start = read_struct(record, Start)
                self._has_begun = True
                headers = byte_pairs(start.headers)
                await self._send({"type": "http.response.start", "status": start.status, "headers": headers})

    async def _owner_done(self, how: bytes) -> None:
        """Do nothing: a response that is not complete is cut by the server here, as it would be by the owner's."""

    async def _owner_lost(self) -> None:
        if self._has_begun:
            return
        body = b"unable to answer; the node of this agent is gone. Try again."
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"retry-after", b"1"),
        ]
        await self._send({"type": "http.response.start", "status": 503, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


class _Piece(NamedTuple):
    """A part of a frame, as a server with the extension `FRAMES` takes it."""

    slice: _Slice
    is_first: bool
    is_last: bool


class _Slice(NamedTuple):
    parts: tuple[bytes, ...]


class _SocketRelay(_Relay):
    """One socket."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, may_move: bool = False) -> None:
        super().__init__(scope, receive, send)
        self.kept = KeptSocket()
        """How far the client is, for the next owner."""
        self.is_moving = False
        """True when the owner is lost, and another one is to take the socket over."""
        self._may_move = may_move
        extension = (scope.get("extensions") or {}).get(FRAMES)
        self._takes_many = extension is not None
        self._write = (extension or {}).get("write")
        self._joiner = MessageJoiner(LinkSettings().message_bytes)
        self._is_accepted = self._is_refused = False
        self._is_taken = asyncio.Event()
        """Set when the present owner serves the socket; while a socket moves, when the next owner has reported."""
        self._is_taken.set()
        self._unsent: Message | None = None
        """A message that waits for that: no owner has it yet."""
        self._given_up = Close(COME_BACK, "restarting")
        """How the socket is closed if no owner takes it."""

    # -- from the client ----------------------------------------------------------------------------------------

    def _has_left(self, message: Message) -> bool:
        if message["type"] != "websocket.disconnect":
            return False
        self._left = msgspec.json.encode(Close(message.get("code", 1005), message.get("reason") or ""))
        return True

    def begin_again(self) -> None:
        """Prepare for the next owner: it gets the messages that the last one had not decided."""
        self.is_moving = False
        self.kept.moved()
        self._is_taken.clear()
        self._joiner = MessageJoiner(LinkSettings().message_bytes)

    async def give_up(self) -> None:
        """Close the socket: no other owner was found, or none took it."""
        close = self._given_up
        with suppress(OSError, RuntimeError):
            await self._send({"type": "websocket.close", "code": close.code, "reason": close.reason})

    async def _up(self, stream: LinkStream) -> None:
        for message in self.kept.undecided():
            with suppress(LinkError):
                await self._send_message_up(stream, message)
        while True:
            if self._unsent is None:
                message = await self._receive()
                if self._has_left(message):
                    return
                self._unsent = message
            # An owner that is about to refuse the socket must not get a message that cannot be sent twice.
            await self._is_taken.wait()
            message, self._unsent = self._unsent, None
            with suppress(LinkError):
                await self._send_up(stream, message)

    async def _send_up(self, stream: LinkStream, message: Message) -> None:
        if message["type"] == "websocket.receive":
            self.kept.sent(message)
            await self._send_message_up(stream, message)

    async def _send_message_up(self, stream: LinkStream, message: Message) -> None:
        text, data = message.get("text"), message.get("bytes")
        if CUT_TEXT in message:
            await stream.send(CUT, message[CUT_TEXT].to_bytes(8, "big"), (text or "").encode())
        elif text is not None:
            await stream.send_all(part_records(TEXT, TEXT_PART, text.encode()))
        else:
            await stream.send_all(part_records(BYTES, BYTES_PART, data or b""))

    # -- to the client ------------------------------------------------------------------------------------------

    async def _down(self, stream: LinkStream) -> None:
        sink = self._take if self._write is not None else None
        while (record := await stream.receive(sink)) is not None:
            await self._deliver(record)

    def _take(self, record: bytes) -> bytes | None:
        """Write texts as they arrive; return what did not fit. The path of nearly every chunk."""
        assert self._write is not None
        tag = record[:1]
        if self.kept.is_open:
            return record
        if tag == TEXTS_AT:
            return self._take_at(record)
        if tag not in (TEXT, TEXTS):
            return record
        try:
            rest = self._write([record[1:]] if tag == TEXT else unpacked(record))
        except Exception:  # noqa: BLE001 - the task that delivers will meet it, too
            return record
        return b"".join(packed(rest)) if rest else None

    def _take_at(self, record: bytes) -> bytes | None:
        assert self._write is not None
        cursor, texts = unpacked_at(record)
        try:
            rest = self._write(texts)
        except Exception:  # noqa: BLE001 - as above
            return record
        if rest:
            return b"".join(packed_at(cursor, rest))
        self.kept.cursor = cursor
        return None

    async def _deliver(self, record: bytes) -> None:
        if record[:1] == PROGRESS:
            progress = read_struct(record, Progress)
            if not progress.is_open:
                await self._deliver_held()
                self._is_taken.set()
                self._given_up = Close(COME_BACK, "restarting")
            self.kept.update(progress)
        elif not self.kept.is_open or not self.kept.hold(record):
            await self._deliver_held()
            await self._deliver_now(record)

    async def _deliver_held(self) -> None:
        for record in self.kept.released():
            await self._deliver_now(record)

    async def _deliver_now(self, record: bytes) -> None:
        tag = record[:1]
        if tag == TEXTS_AT:
            cursor, texts = unpacked_at(record)
            await self._deliver_texts(texts)
            self.kept.cursor = cursor
        elif tag in (TEXT, TEXTS):
            await self._deliver_texts([record[1:]] if tag == TEXT else unpacked(record))
        elif tag == TEXT_PART and self._takes_many:
            is_first, is_last = bool(record[1] & FIRST_PART), bool(record[1] & LAST_PART)
            pieces = [_Piece(_Slice((record[2:],)), is_first, is_last)]
            await self._send({"type": FRAMES, "frames": (), "pieces": pieces})
        elif tag in (TEXT_PART, BYTES_PART):
            if (whole := self._joiner.add(record)) is not None:
                await self._send_message(whole, is_text=tag == TEXT_PART)
        elif tag == BYTES:
            await self._send_message(record[1:], is_text=False)
        elif tag == ACCEPT and not self._is_accepted:
            accept = read_struct(record, Accept)
            self._is_accepted = True
            headers = byte_pairs(accept.headers)
            await self._send({"type": "websocket.accept", "subprotocol": accept.subprotocol, "headers": headers})
        elif tag == START:
            start = read_struct(record, Start)
            self._is_refused = True
            headers = byte_pairs(start.headers)
            await self._send({"type": "websocket.http.response.start", "status": start.status, "headers": headers})
        elif tag == BODY:
            more = record[1:2] == b"\1"
            await self._send({"type": "websocket.http.response.body", "body": record[2:], "more_body": more})

    async def _deliver_texts(self, texts: list[bytes]) -> None:
        if self._takes_many:
            await self._send({"type": FRAMES, "frames": texts})
        else:
            for text in texts:
                await self._send_message(text, is_text=True)

    async def _send_message(self, data: bytes, *, is_text: bool) -> None:
        content: Message = {"text": data.decode()} if is_text else {"bytes": data}
        await self._send({"type": "websocket.send", **content})

    # -- the end ------------------------------------------------------------------------------------------------

    async def _owner_done(self, how: bytes) -> None:
        if how:
            close = close_of(how)
            is_refused = close.code == TRY_LATER and not self._is_taken.is_set()
            if (close.moves or is_refused) and self._can_move():
                self._given_up, self.is_moving = close, True
                return
            await self._deliver_held()
            await self._send({"type": "websocket.close", "code": close.code, "reason": close.reason})

    def _can_move(self) -> bool:
        return self._may_move and not self._left and self.kept.can_move

    async def _not_opened(self, error: LinkError) -> None:
        if isinstance(error, LinkBusy):
            self._given_up = Close(TRY_LATER, "unable to serve the socket right now; connect again in a moment")
        await self._owner_lost()

    async def _owner_lost(self) -> None:
        if self._is_refused:
            return
        if self._can_move():
            self.is_moving = True
            return
        if not self._is_accepted:  # a browser hides why an upgrade failed
            await self._send({"type": "websocket.accept"})
        await self._send({"type": "websocket.close", "code": COME_BACK, "reason": "restarting"})
