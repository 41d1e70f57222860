"""Writes frames to one socket: many at a time where the server can (the ASGI extension `FRAMES`), else one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.types import Scope, Send
from starlette.websockets import WebSocketDisconnect

from .shared_slices import SLICE, FramePiece, SharedSlices, joined

__all__ = ["FRAMES", "SocketTransport"]

FRAMES: Final = "everyword.frames"
"""An ASGI extension for servers that take several frames in one message.

A message of this type has `frames`, texts in UTF-8. Data that is too large for one write comes as `pieces` instead:
slices that clients share. The extension's `write` takes frames without waiting and returns those that did not fit.
"""


class SocketTransport:
    """The way out of one socket. It sends in the order of the calls, as fast as the client reads."""

    def __init__(self, scope: Scope, send: Send, slices: SharedSlices) -> None:
        extension = scope.get("extensions", {}).get(FRAMES)
        self._send, self._slices = send, slices
        self.send_message = send
        """Sends one ASGI message."""
        self._takes_many = extension is not None
        self.write_now: Callable[[list[bytes]], list[bytes]] | None = (extension or {}).get("write")
        """Writes frames without waiting and returns those that did not fit; None if the server cannot do that."""

    async def send(self, frames: list[bytes]) -> None:
        """Send frames as the client reads them. May empty the list, so that large frames can be freed.

        Raises:
            WebSocketDisconnect: the client is gone.
        """
        if sum(map(len, frames)) > SLICE:
            await self.send_pieces(self._slices.slice_frames(frames))
            return
        try:
            # Straight to the server: Starlette's `send_text` checks for each frame what is known here.
            if not self._takes_many:
                for frame in frames:
                    await self._send({"type": "websocket.send", "text": frame.decode()})
            elif frames:
                await self._send({"type": FRAMES, "frames": frames})
        except OSError:
            raise WebSocketDisconnect(code=1006) from None

    async def send_pieces(self, pieces: list[FramePiece]) -> None:
        """Send frames that were cut into slices. Empties the list as the client reads.

        Raises:
            WebSocketDisconnect: the client is gone.
        """
        if not pieces:
            return
        try:
            if self._takes_many:
                await self._send({"type": FRAMES, "frames": (), "pieces": pieces})
            else:
                for frame in joined(pieces):
                    await self._send({"type": "websocket.send", "text": frame.decode()})
        except OSError:
            raise WebSocketDisconnect(code=1006) from None
