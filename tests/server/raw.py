"""A socket without a library: it sends what no library would, and reads only when it is told to."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.timeouts import PATIENCE

__all__ = ["RawSocket", "frame"]

ROOM = 64 * 1024
"""Bytes that the operating system keeps for a client that does not read."""


def frame(data: bytes, opcode: int = 1, *, fin: bool = True, first: int = 0, size: int | None = None) -> bytes:
    """Return a frame as a client sends it, under a mask of zeros; `size` is what it says that it has."""
    said = len(data) if size is None else size
    flags = opcode | first | (0x80 if fin else 0)
    if said < 126:
        return struct.pack("!BB4x", flags, 0x80 | said) + data
    if said < 65_536:
        return struct.pack("!BBH4x", flags, 0x80 | 126, said) + data
    return struct.pack("!BBQ4x", flags, 0x80 | 127, said) + data


class RawSocket:
    """One connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.handshake = b""

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[RawSocket]:
        """Connect, and say nothing."""
        port = int(url.rsplit(":", 1)[1].partition("/")[0])
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", port))
        client = cls(*await asyncio.open_connection(sock=plain, limit=ROOM))
        try:
            yield client
        finally:
            await client.drop()

    async def upgrade(self, *headers: str, name: str = "ann") -> None:
        """Become a WebSocket."""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET /agents/chat/{name} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *headers]
        self.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        self.handshake = await self.read_until(b"\r\n\r\n")

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def push(self, data: bytes) -> None:
        """Write all of it, unless the server closes before that."""
        async with asyncio.timeout(PATIENCE):
            try:
                for first in range(0, len(data), ROOM):
                    if self._writer.transport.is_closing():
                        return
                    self._writer.write(data[first : first + ROOM])
                    await self._writer.drain()
            except OSError:
                return

    def say(self, **message: Any) -> None:
        self.write(frame(json.dumps(message).encode()))

    def ask(self, request: str, text: str) -> bytes:
        """Return a question as the stock client sends it, without its frame."""
        body = {"messages": [{"id": f"u-{request}", "role": "user", "parts": [{"type": "text", "text": text}]}]}
        init = {"method": "POST", "body": json.dumps(body)}
        return json.dumps({"id": request, "init": init, "type": "cf_agent_use_chat_request"}).encode()

    async def next(self) -> tuple[int, bytes, bool]:
        """Read one frame: opcode, data, and whether it is the last of its message."""
        async with asyncio.timeout(PATIENCE):
            flags, size = await self._reader.readexactly(2)
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
            return flags & 0x0F, await self._reader.readexactly(size), bool(flags & 0x80)

    async def message(self) -> dict[str, Any]:
        """Read the next message; pings and pongs are passed over."""
        data = b""
        while True:
            opcode, part, is_last = await self.next()
            assert opcode != 8, part
            if opcode < 8:
                data += part
                if is_last:
                    found: dict[str, Any] = json.loads(data)
                    return found

    async def until(self, **wanted: Any) -> dict[str, Any]:
        """Read on until a message has these fields."""
        while True:
            message = await self.message()
            if all(message.get(name) == value for name, value in wanted.items()):
                return message

    async def closed(self) -> tuple[int, str, int]:
        """Read to the server's close; return its code, its reason and how many bytes came before."""
        before = 0
        while True:
            opcode, data, _ = await self.next()
            if opcode == 8:
                return int.from_bytes(data[:2]), data[2:].decode(), before
            before += len(data)

    async def rest(self) -> bytes:
        """Read to the end of the connection."""
        data = b""
        async with asyncio.timeout(PATIENCE):
            try:
                while piece := await self._reader.read(ROOM):
                    data += piece
            except ConnectionError:
                pass
        return data

    async def read_until(self, end: bytes) -> bytes:
        """Read to these bytes, whatever the transport."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readuntil(end)

    async def drop(self) -> None:
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()
