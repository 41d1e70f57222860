"""The load: sockets that look at a frame only as closely as they must, so that the client is not what is measured.

Every delta carries `@` and the time it was made, so counting `@` counts chunks, however a server joined them.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from benchmarks.servers.source import Ask

__all__ = ["Answer", "Socket", "Stamps", "connect", "connect_many", "question"]

AT_ONCE = 50
"""Sockets that are opened at the same time."""
PATIENCE = 120.0
"""Seconds within which an answer must have ended."""
LARGEST_FRAME = 256 * 1024 * 1024

_numbers = itertools.count(1)


@dataclass(slots=True)
class Stamps:
    """When chunks were made and when they were received, in microseconds."""

    made: array[int] = field(default_factory=lambda: array("q"))
    received: array[int] = field(default_factory=lambda: array("q"))


@dataclass(frozen=True, slots=True)
class Answer:
    """One turn as its client saw it; times in seconds since it was asked for."""

    chunks: int
    first: float
    last: float
    ended: float


class Socket(WSListener):
    """One connection to one conversation."""

    def __init__(self, stamps: Stamps | None = None, *, keeps: bool = False) -> None:
        super().__init__()
        self.kept: list[bytes] | None = [] if keeps else None
        """All that was said of turns, for who wants to compare."""
        loop = asyncio.get_running_loop()
        self.stamps = stamps
        self.chunks = 0
        self.bytes = 0
        self.transport: WSTransport
        self._loop = loop
        self._ready: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] | None = None
        self._first = self._last = 0.0
        self.made = 0
        """When the first chunk was made, in microseconds since 1970."""
        self._pieces: list[bytes] = []
        self._request = ""

    # -- frames ---------------------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        payload = frame.get_payload_as_bytes()
        at = payload.find(b"@")
        if at < 0 or self._pieces or not frame.fin or b"_use_chat_response" not in payload:
            self._look_closer(frame, payload)
            return
        self._last = time.perf_counter()
        if not self.chunks:
            self._first, self.made = self._last, int(payload[at + 1 : at + 17])
        self.chunks += payload.count(b"@")
        self.bytes += len(payload)
        if self.kept is not None:
            self.kept.append(payload)
        if (stamps := self.stamps) is not None:
            stamps.made.append(int(payload[at + 1 : at + 17]))
            stamps.received.append(time.time_ns() // 1000)

    def _look_closer(self, frame: WSFrame, payload: bytes) -> None:
        if frame.msg_type not in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            return
        self._pieces.append(payload)
        if not frame.fin:
            return
        payload, self._pieces = b"".join(self._pieces), []
        if b"_use_chat_response" in payload:
            self.chunks += payload.count(b"@")
            self.bytes += len(payload)
            if self.kept is not None:
                self.kept.append(payload)
            if b'"error":true' in payload:
                self._fail(RuntimeError(f"the turn failed: {payload[:300]!r}"))
            elif b'"done":true' in payload or b'"replayComplete":true' in payload:
                self._finish()
        elif b"cf_agent_identity" in payload:
            if not self._ready.done():
                self._ready.set_result(None)
        elif b"cf_agent_stream_resume_none" in payload:
            self._finish()
        elif b"cf_agent_stream_resuming" in payload and self._ended is not None:
            request = msgspec.json.decode(payload)["id"]
            self.send({"type": "cf_agent_stream_resume_ack", "id": request})

    def _finish(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._fail(ConnectionError("the server closed the socket"))

    def _fail(self, error: Exception) -> None:
        for future in (self._ready, self._ended):
            if future is not None and not future.done():
                future.set_exception(error)

    def send(self, frame: dict[str, Any]) -> None:
        self.transport.send(WSMsgType.TEXT, msgspec.json.encode(frame))

    # -- turns ----------------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Wait until the server said who it is."""
        async with asyncio.timeout(PATIENCE):
            await self._ready

    def ending(self) -> asyncio.Future[None]:
        """Begin to count anew; return what is done when the turn, or the replay, has ended."""
        self.chunks = self.bytes = 0
        self._ended = self._loop.create_future()
        return self._ended

    async def ask(self, ask: Ask, history: Sequence[Any] = ()) -> Answer:
        """Ask, and wait for the end of the answer; it must have every chunk exactly once.

        `history` goes along before the question.
        """
        ended = self.ending()
        frame = question(ask, history)
        self._request = str(frame["id"])
        encoded = msgspec.json.encode(frame)
        began = time.perf_counter()
        self.transport.send(WSMsgType.TEXT, encoded)
        async with asyncio.timeout(PATIENCE):
            await ended
        over = time.perf_counter()
        if self.chunks != ask.chunks:
            raise RuntimeError(f"{ask.chunks} chunks were asked for, {self.chunks} arrived")
        return Answer(self.chunks, self._first - began, self._last - began, over - began)

    async def begin(self, ask: Ask) -> None:
        """Ask for a stream that stays open, and wait until all of it has come."""
        _ = self.ending()
        frame = question(ask)
        self._request = str(frame["id"])
        self.send(frame)
        async with asyncio.timeout(PATIENCE):
            while self.chunks < ask.chunks:  # noqa: ASYNC110 - nothing on the way of a frame for the sake of one row
                await asyncio.sleep(0.002)

    async def resume(self, patience: float = PATIENCE) -> Answer:
        """Ask for what is going on, as a page does that comes back; wait until all that was said has come."""
        ended = self.ending()
        began = time.perf_counter()
        self.send({"type": "cf_agent_stream_resume_request", "probeId": "probe"})
        async with asyncio.timeout(patience):
            await ended
        over = time.perf_counter()
        return Answer(self.chunks, self._first - began, self._last - began, over - began)

    async def cancel(self) -> None:
        """Stop the turn that this socket asked for."""
        ended = self.ending()
        self.send({"type": "cf_agent_chat_request_cancel", "id": self._request})
        async with asyncio.timeout(PATIENCE):
            await ended

    async def close(self) -> None:
        """Hang up, and forget what has not ended."""
        if self._ended is not None:
            self._ended.cancel()
        self.transport.disconnect()
        await self.transport.wait_disconnected()


def question(ask: Ask, history: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the request frame of the stock client: history, a new question, and what is asked for."""
    number = next(_numbers)
    asked = {"id": f"q{number}", "role": "user", "parts": [{"type": "text", "text": "Tell me something."}]}
    body = {"messages": [*history, asked], "trigger": "submit-message", "bench": msgspec.to_builtins(ask)}
    return {
        "id": f"r{number}",
        "init": {"method": "POST", "body": msgspec.json.encode(body).decode()},
        "type": "cf_agent_use_chat_request",
    }


async def connect(port: int, name: str, stamps: Stamps | None = None, *, keeps: bool = False) -> Socket:
    """Open a socket to one conversation and wait until it is greeted."""
    url = f"ws://127.0.0.1:{port}/agents/chat/{name}?_pk=pk{next(_numbers)}"
    _, socket = await ws_connect(
        lambda: Socket(stamps, keeps=keeps), url, max_frame_size=LARGEST_FRAME, websocket_handshake_timeout=PATIENCE
    )
    if not isinstance(socket, Socket):
        raise ConnectionError("the server closed the socket at once")
    await socket.ready()
    return socket


async def connect_many(port: int, names: Sequence[str], stamps: Stamps | None = None) -> list[Socket]:
    """Open a socket to each, a few at a time."""
    found: list[Socket] = []
    for start in range(0, len(names), AT_ONCE):
        batch = names[start : start + AT_ONCE]
        found += await asyncio.gather(*(connect(port, name, stamps) for name in batch))
    return found
