"""A TCP proxy between the page and the server that a test can cut, freeze and slow down."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

from tests.browser.loop_thread import Loop

__all__ = ["Link"]

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """A TCP proxy in front of the server, one per tab, so that each tab can lose its network alone.

    All methods may be called from the test's thread. They return after their effect.
    """

    def __init__(self, loop: Loop, upstream: int) -> None:
        self.port = 0
        self.accepted = 0
        self._loop, self._upstream = loop, upstream
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_down = False
        self._lag = 0.0

    def __enter__(self) -> Self:
        self._loop.run(self._open())
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.run(self._close())

    def cut(self) -> None:
        """Reset every connection, and every new one until `restore`."""
        self._loop.call(self._set_down, True)

    def restore(self) -> None:
        self._loop.call(self._set_down, False)

    def drop(self) -> None:
        """Reset every connection once; new ones get through."""
        self._loop.call(self._reset)

    def freeze(self) -> None:
        """Let nothing through, without closing a connection."""
        self._loop.call(self._flowing.clear)

    def thaw(self) -> None:
        self._loop.call(self._flowing.set)

    def lag(self, seconds: float) -> None:
        """Delay every piece by so many seconds, in order, in both directions."""
        self._lag = seconds

    # -- in the loop's thread ------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        self._reset()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def _set_down(self, is_down: bool) -> None:
        self._is_down = is_down
        if is_down:
            self._reset()

    def _reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_down:
            writer.transport.abort()
            return
        self.accepted += 1
        try:
            beyond = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        if self._is_down:  # cut while the other side was being reached
            writer.transport.abort()
            beyond[1].transport.abort()
            return
        here = (reader, writer)
        for source, target in ((here, beyond), (beyond, here)):
            pump = asyncio.create_task(self._pump(source, target))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: Pipe, target: Pipe) -> None:
        reader, writer = source[0], target[1]
        self._writers.add(writer)
        try:
            while piece := await reader.read(65536):
                await self._held_back()
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            with suppress(OSError):
                writer.close()

    async def _held_back(self) -> None:
        if self._lag:
            due = asyncio.Event()
            asyncio.get_running_loop().call_later(self._lag, due.set)
            await due.wait()
        await self._flowing.wait()
