"""The owner's side of a relay: runs an ASGI application for requests and sockets that came in at other nodes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Message

from ..errors import BadLinkFrame, LinkError
from ..ids import Incarnation
from .relay_header import FRAMES, MOVES, RELAYED, RelayHeader, read_header, scope_of, text_pairs
from .relay_records import (
    ACCEPT,
    BYTES,
    BYTES_PART,
    CUT,
    PROGRESS,
    START,
    TEXT,
    TEXT_PART,
    Accept,
    Close,
    MessageJoiner,
    Start,
    body_records,
    close_of,
    fitting,
    packed,
    packed_at,
    part_records,
    piece_records,
    text_records,
)
from .remote_failures import write_failure
from .settings import LinkSettings
from .streams import LinkStream

__all__ = ["CUT_TEXT", "RelayedRequests"]

log = logging.getLogger("everyword.cluster")

CUT_TEXT: Final = "everyword.cut"
"""The key of a received message whose text the server has cut: the size of the whole."""

MESSAGES_AT_ONCE: Final = 128
"""Messages of one client that are taken before other tasks have a turn: the tasks that they start, too."""


class RelayedRequests:
    """Runs any ASGI application with the requests and sockets of other nodes.

    The application finds out by `scope["extensions"]["everyword.relayed"]`, which has what the edge attached and the
    edge's incarnation. A client that leaves, and a link that is lost, look as under any server.
    """

    def __init__(self, app: ASGIApp, settings: LinkSettings | None = None) -> None:
        self._app = app
        self._limit = (settings or LinkSettings()).message_bytes

    async def serve(self, stream: LinkStream, encoded: bytes, peer: Incarnation) -> None:
        """Serve one request or socket. Never raises for what a client or the application does."""
        try:
            header = read_header(encoded)
        except BadLinkFrame as exc:
            log.error("node %d: %s", peer, exc)
            stream.reset(write_failure(exc))
            return
        exchange = self._exchange(header, stream)
        scope = scope_of(header, peer)
        relayed = scope["extensions"][RELAYED]
        if isinstance(exchange, _RelayedSocket):
            scope["extensions"][FRAMES] = {"write": exchange.write}
            relayed["write_at"] = exchange.write_at
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as exc:
            if not (isinstance(exc, OSError) and exchange.is_gone):
                log.exception("a relayed %s failed", header.kind)
            stream.close()
        except BaseException:
            stream.reset()  # the edge must not take it for the end of the application
            raise
        else:
            stream.close()
        finally:
            relayed.pop("write_at", None)
            scope["extensions"].pop(FRAMES, None)  # the scope refers to a method of ours: that is a reference cycle

    def _exchange(self, header: RelayHeader, stream: LinkStream) -> _RelayedHttp | _RelayedSocket:
        return _RelayedHttp(stream) if header.kind == "http" else _RelayedSocket(stream, self._limit)


class _RelayedHttp:
    """`receive` and `send` of one request."""

    def __init__(self, stream: LinkStream) -> None:
        self._stream = stream
        self._is_complete = False

    @property
    def is_gone(self) -> bool:
        return self._stream.ended.done() or self._stream.broken.done()

    async def receive(self) -> Message:
        """Return the next piece of the body; `http.disconnect` when the client is gone or the response is complete."""
        try:
            record = None if self._is_complete else await self._stream.receive()
        except LinkError:
            record = None
        if record is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": record[2:], "more_body": record[1:2] == b"\1"}

    async def send(self, message: Message) -> None:
        """Send a piece of the response; ignored when the client is gone, as under uvicorn."""
        try:
            if message["type"] == "http.response.start":
                start = Start(message["status"], text_pairs(message.get("headers", ())))
                await self._stream.send(START, msgspec.json.encode(start))
            elif message["type"] == "http.response.body":
                more = message.get("more_body", False)
                await self._stream.send_all(body_records(message.get("body", b""), more))
                if not more:
                    self._is_complete = True
                    self._stream.finish()
            else:
                raise RuntimeError(f"unable to relay a message of type {message['type']!r}")
        except LinkError:
            return


class _RelayedSocket:
    """`receive`, `send` and `write` of one socket."""

    def __init__(self, stream: LinkStream, limit: int) -> None:
        self._stream = stream
        self._joiner = MessageJoiner(limit)
        self._has_connected = self._has_closed = False
        self._received = 0
        """Messages since others had a turn."""

    @property
    def is_gone(self) -> bool:
        return self._stream.ended.done() or self._stream.broken.done()

    # -- receiving ----------------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """Return the next message of the client; `websocket.disconnect` when it is gone."""
        if not self._has_connected:
            self._has_connected = True
            return {"type": "websocket.connect"}
        self._received += 1
        if self._received >= MESSAGES_AT_ONCE:  # many may be here, and taking one that is here does not wait
            self._received = 0
            await asyncio.sleep(0)
        while True:
            try:
                record = await self._stream.receive()
                message = self._message_of(record) if record is not None else None
            except LinkError:
                return {"type": "websocket.disconnect", "code": 1006, "reason": ""}
            if record is None:
                left = close_of(self._stream.ended.result())
                return {"type": "websocket.disconnect", "code": left.code, "reason": left.reason}
            if message is not None:
                return message

    def _message_of(self, record: bytes) -> Message | None:
        tag = record[:1]
        if tag == TEXT:
            return _received(record[1:].decode())
        if tag == BYTES:
            return _received(record[1:])
        if tag == CUT:
            return {**_received(record[9:].decode()), CUT_TEXT: int.from_bytes(record[1:9], "big")}
        if tag in (TEXT_PART, BYTES_PART) and (whole := self._joiner.add(record)) is not None:
            return _received(whole.decode() if tag == TEXT_PART else whole)
        return None  # a part, or something of a newer release

    # -- sending ------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            ConnectionResetError: the client is gone.
        """
        if self._has_closed:
            raise RuntimeError(f"unable to send {message['type']!r}; the socket was closed")
        try:
            await self._send(message)
        except LinkError:
            raise ConnectionResetError("the client is gone") from None

    async def _send(self, message: Message) -> None:
        stream = self._stream
        match message["type"]:
            case "websocket.send":
                data, text = message.get("bytes"), message.get("text")
                if data is not None:
                    await stream.send_all(part_records(BYTES, BYTES_PART, data))
                else:
                    await stream.send_all(part_records(TEXT, TEXT_PART, (text or "").encode()))
            case "everyword.frames":
                if message["frames"]:
                    await stream.send_all(text_records(list(message["frames"])))
                if pieces := message.get("pieces"):
                    await stream.send_all(piece_records(pieces))
            case "everyword.progress":
                await stream.send(PROGRESS, msgspec.json.encode(message["progress"]))
            case "websocket.accept":
                accept = Accept(message.get("subprotocol"), text_pairs(message.get("headers", ())))
                await stream.send(ACCEPT, msgspec.json.encode(accept))
            case "websocket.close":
                self._has_closed = True
                close = Close(message.get("code", 1000), message.get("reason") or "", message.get(MOVES, False))
                stream.finish(msgspec.json.encode(close))  # needs no credit: a client that does not read is closed, too
            case "websocket.http.response.start":
                start = Start(message["status"], text_pairs(message.get("headers", ())))
                await stream.send(START, msgspec.json.encode(start))
            case "websocket.http.response.body":
                await stream.send_all(body_records(message.get("body", b""), message.get("more_body", False)))
            case other:
                raise RuntimeError(f"unable to relay a message of type {other!r}")

    def write_at(self, cursor: int, texts: list[bytes]) -> bool:
        """Send texts that bring the client to a place in the log, without waiting; False if they do not fit.

        Raises:
            ConnectionResetError: the client is gone.
        """
        if fitting(texts) < len(texts):
            return False
        try:
            return self._stream.write(*packed_at(cursor, texts))
        except LinkError:
            raise ConnectionResetError("the client is gone") from None

    def write(self, texts: list[bytes]) -> list[bytes]:
        """Send texts without waiting; return those that did not fit. The ASGI extension `FRAMES`.

        Raises:
            ConnectionResetError: the client is gone.
        """
        try:
            while texts:
                count = fitting(texts)
                if not count or not self._stream.write(*packed(texts[:count])):
                    break
                texts = texts[count:]
        except LinkError:
            raise ConnectionResetError("the client is gone") from None
        return texts


def _received(data: str | bytes) -> dict[str, Any]:
    return {"type": "websocket.receive", "text" if isinstance(data, str) else "bytes": data}
