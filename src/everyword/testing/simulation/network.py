"""A connection as two queues that the simulation empties: frames are late, lost, or wait for a slow client."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.websockets import WebSocket

from ...server.shared_slices import joined
from ...server.socket_transport import FRAMES

__all__ = ["Closed", "Link"]


@dataclass(frozen=True, slots=True)
class Closed:
    """The last item of a link: the server has closed it."""

    code: int


class Link:
    """One WebSocket between a tab and a server, as ASGI shows it to the server.

    `up` and `down` are in flight; `deliver_up` and `take_down` let the next frame arrive. The server's sending waits
    when `room` frames are on their way. `on_send` is called with every frame before it is queued.
    """

    def __init__(self, name: str, room: int, on_send: Callable[[str], None]) -> None:
        self.name = name
        self.up: deque[str] = deque()
        self.down: deque[str | Closed] = deque()
        self.is_received = True
        """False when frames of the server no longer reach the client."""
        self.is_cut = False
        """True when the server knows that the client is gone."""
        self.has_removed = False
        """True when the client took a message off its list, until a transcript comes: chunks may belong to it."""
        self._room, self._on_send = room, on_send
        self._arrived: deque[dict[str, Any]] = deque([{"type": "websocket.connect"}])
        self._changed = asyncio.Event()

    def websocket(self, owner: str) -> WebSocket:
        """Return the server's end; every second one accepts many frames at once, like `everyword serve`."""
        scope = {
            "type": "websocket",
            "path": "/",
            "headers": [],
            "query_string": f"_pk={owner}".encode(),
            "subprotocols": [],
            "extensions": {FRAMES: {"write": self.write_frames}} if self.name[-1] in "02468" else {},
        }
        return WebSocket(scope, self.receive, self.send)

    # -- the server's side ---------------------------------------------------------------------------------------

    async def receive(self) -> dict[str, Any]:
        while not self._arrived:
            if self.is_cut:
                return {"type": "websocket.disconnect", "code": 1006}
            self._changed.clear()
            await self._changed.wait()
        return self._arrived.popleft()

    async def send(self, message: Any) -> None:
        match message["type"]:
            case "websocket.send":
                await self._write(message["text"])
            case kind if kind == FRAMES:
                for frame in (*message["frames"], *joined(message.get("pieces", []))):
                    await self._write(frame.decode())
            case "websocket.close":
                self._end(int(message.get("code", 1000)))
            case _:
                pass

    def write_frames(self, texts: list[bytes]) -> list[bytes]:
        """Take as many as there is room for; return the others."""
        place = 0
        while place < len(texts) and (len(self.down) < self._room or self.is_cut):
            self._put(texts[place].decode())
            place += 1
        return texts[place:]

    async def _write(self, text: str) -> None:
        while len(self.down) >= self._room and not self.is_cut:
            self._changed.clear()
            await self._changed.wait()
        self._put(text)

    def _put(self, text: str) -> None:
        if self.is_cut:
            raise OSError("the client is gone")
        self._on_send(text)
        self.down.append(text)

    def close(self, code: int) -> None:
        """Close the link, unless it is closed."""
        if not self.is_cut:
            self._end(code)

    @property
    def unread(self) -> int:
        """How many frames of the client have arrived that the server has not looked at."""
        return len(self._arrived)

    def _end(self, code: int) -> None:
        if self.is_received:
            self.down.append(Closed(code))
        self.is_cut = True
        self.up.clear()
        self._changed.set()

    # -- the network's side --------------------------------------------------------------------------------------

    def deliver_up(self) -> str:
        text = self.up.popleft()
        self._arrived.append({"type": "websocket.receive", "text": text})
        self._changed.set()
        return text

    def take_down(self) -> str | Closed:
        item = self.down.popleft()
        self._changed.set()
        return item

    def lose_client(self, arriving: int, *, told: bool) -> None:
        """Disconnect the client; `arriving` of its frames still arrive. `told` is False for a half-open link."""
        for _ in range(min(arriving, len(self.up))):
            self.deliver_up()
        self.up.clear()
        self.is_received = False
        if told:
            self.tell()

    def tell(self) -> None:
        """Let the server notice that the client is gone."""
        self.is_cut = True
        self._changed.set()

    def lose_server(self, arriving: int) -> None:
        """Disconnect the server; `arriving` of its frames still arrive."""
        while len(self.down) > arriving:
            self.down.pop()
        if not any(isinstance(item, Closed) for item in self.down):
            self._end(1006)
