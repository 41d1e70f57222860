"""A network between a client and a server that a test can cut: at once, before a given frame, or for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Network:
    """A TCP proxy. After `cut_after` WebSocket frames of the server, it resets the connection once."""

    def __init__(self, upstream: int) -> None:
        self.port = 0
        self.accepted = 0
        self.frames = 0
        self.cut_after: int | None = None
        self.cut_upwards_after: int | None = None
        self.is_down = False
        self._upstream = upstream
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def drop(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        self.accepted += 1
        try:
            beyond = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        here = (reader, writer)
        for source, target, is_down in ((here, beyond, False), (beyond, here, True)):
            pump = asyncio.create_task(self._pump(source, target, is_down=is_down), name="pump")
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def close(self) -> None:
        self.drop()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _pump(self, source: Pipe, target: Pipe, *, is_down: bool) -> None:
        reader, writer = source[0], target[1]
        self._writers.add(writer)
        counter = FrameCounter()
        try:
            while piece := await reader.read(65536):
                for part in counter.split(piece):
                    if self._is_due(counter, is_down=is_down):
                        self.drop()
                        return
                    writer.write(part)
                    await writer.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            with suppress(OSError):
                writer.close()

    def _is_due(self, counter: FrameCounter, *, is_down: bool) -> bool:
        """Tell, once, whether the frame that has just begun is the one to cut at."""
        if not counter.is_upgraded:
            return False
        if is_down:
            self.frames = max(self.frames, counter.frames)
            if self.cut_after is not None and counter.frames > self.cut_after:
                self.cut_after = None
                return True
            return False
        if self.cut_upwards_after is not None and counter.frames > self.cut_upwards_after:
            self.cut_upwards_after = None
            return True
        return False


class FrameCounter:
    """Splits the bytes of one direction into the HTTP head and WebSocket frames, and counts the begun frames."""

    def __init__(self) -> None:
        self.frames = 0
        self.is_upgraded = False
        self._buffer = b""
        self._is_http = False

    def split(self, piece: bytes) -> Any:
        self._buffer += piece
        if not self.is_upgraded and not self._is_http:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            if b"upgrade: websocket" in head.lower():
                self._buffer = rest
                yield head + found
                self.is_upgraded = True
            else:
                self._is_http = True
        if self._is_http:
            whole, self._buffer = self._buffer, b""
            yield whole
            return
        while (length := frame_length(self._buffer)) is not None and len(self._buffer) >= length:
            frame, self._buffer = self._buffer[:length], self._buffer[length:]
            self.frames += 1
            yield frame


def frame_length(buffer: bytes) -> int | None:
    """Return the length of the WebSocket frame that the bytes begin with; None if there are too few bytes."""
    if len(buffer) < 2:
        return None
    length, head = buffer[1] & 0x7F, 2
    extended = {126: 2, 127: 8}.get(length, 0)
    if len(buffer) < head + extended:
        return None
    if extended:
        length = int.from_bytes(buffer[head : head + extended])
    masked = 4 if buffer[1] & 0x80 else 0
    return head + extended + masked + length


@asynccontextmanager
async def network(upstream: int) -> AsyncIterator[Network]:
    between = Network(upstream)
    server = await asyncio.start_server(between.connected, "127.0.0.1", 0)
    between.port = server.sockets[0].getsockname()[1]
    try:
        yield between
    finally:
        server.close()
        await between.close()
