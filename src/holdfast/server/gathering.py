"""WebSockets under uvicorn that write what is said in one breath at once: `ws=` of `holdfast serve`.

uvicorn hands every frame to the transport by itself, and the transport to the kernel: a system call per token and
watcher, which is more than all the rest that a token costs. Under a server of your own, name it as
`uvicorn --ws holdfast.server.gathering:GatheringProtocol`; without it everything works, and takes about twice as long.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

__all__ = ["GatheringProtocol", "GatheringTransport"]

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


class GatheringProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, over a transport that gathers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        gathering: Any = GatheringTransport(cast(asyncio.Transport, transport), self.loop)
        super().connection_made(gathering)
