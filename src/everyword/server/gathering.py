"""WebSockets under uvicorn that write what is said in one breath at once: `ws=` of `everyword serve`.

uvicorn hands every frame to the transport by itself, and the transport to the kernel: a system call per token and
watcher, which is more than all the rest that a token costs. Besides, it makes every frame in a dozen steps, for
whatever a frame may be; ours are whole texts that lack a header, and come as bytes, many at a time, by the extension
of ASGI that `FRAMES` names. Under a server of your own, name it as
`uvicorn --ws everyword.server.gathering:GatheringProtocol`; without it everything works, and takes about twice as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from struct import pack
from typing import Any, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.protocol import OPEN

from .websocket import FRAMES

__all__ = ["GatheringProtocol", "GatheringTransport", "framed"]

AT_MOST = 64 * 1024
"""Bytes that are kept back at most: as much as a transport takes before it asks to be left alone for a while."""


class GatheringTransport:
    """A transport that writes at the end of the present turn of the event loop, or when there is enough to write.

    All else is the transport's own; what is kept back is written before it is closed.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._kept: list[bytes] = []
        self._size = 0

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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def framed(texts: Iterable[bytes]) -> bytes:
    """Return text frames as a server sends them: unmasked, uncompressed, whole (RFC 6455, 5.2)."""
    pieces: list[bytes] = []
    for text in texts:
        size = len(text)
        if size < 126:
            head = pack("!BB", 0x81, size)
        elif size < 65_536:
            head = pack("!BBH", 0x81, 126, size)
        else:
            head = pack("!BBQ", 0x81, 127, size)
        pieces += (head, text)
    return b"".join(pieces)


def _fitting(texts: list[bytes]) -> int:
    """Return how many of the texts are written at once."""
    size = 0
    for count, text in enumerate(texts, 1):
        size += len(text)
        if size >= AT_MOST:
            return count
    return len(texts)


class GatheringProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, over a transport that gathers."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent and not self.conn.extensions:  # who agreed on compression gets it, frame by frame
            self.scope["extensions"][FRAMES] = {"write": self.write_frames}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if isinstance(scope := getattr(self, "scope", None), dict):
            scope["extensions"].pop(FRAMES, None)  # a method of ours in what we hold: else the collector would have to

    async def send(self, message: Any) -> None:
        if message["type"] != FRAMES:
            return await super().send(message)
        gathered: list[bytes] = []
        size = 0
        for text in message["frames"]:
            gathered.append(text)
            size += len(text)
            if size >= AT_MOST:  # no more than so much is copied for a client that does not read
                await self._write(gathered)
                gathered, size = [], 0
        return await self._write(gathered) if gathered else None

    def write_frames(self, texts: list[bytes]) -> list[bytes]:
        """Write frames without waiting; return those that there is no room for yet."""
        gathering: Any = self.transport
        while texts and self.writable.is_set():
            self._check_open()
            count = 1 if len(texts) == 1 else _fitting(texts)
            gathering.write_now(framed(texts[:count]))  # all that there is to say: nothing to gather it with
            texts = texts[count:]
        return texts

    async def _write(self, texts: list[bytes]) -> None:
        if not self.writable.is_set():
            await self.writable.wait()
        self._check_open()
        self.transport.write(framed(texts))

    def _check_open(self) -> None:
        if self.disconnected or self.close_sent or self.conn.state is not OPEN:
            raise ClientDisconnected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        gathering: Any = GatheringTransport(cast(asyncio.Transport, transport), self.loop)
        super().connection_made(gathering)
