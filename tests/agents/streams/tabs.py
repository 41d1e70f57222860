"""A page that watches managed streams over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket

from tests.agents.streams.kit import PATIENCE, PageStream

__all__ = ["Tab", "tab"]


class Tab:
    """A page: takes in every frame, asks for the history of the stream that its state names, shows words."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.frames: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}
        self.streams: dict[str, PageStream] = {}
        self._calls = 0
        self._asked: dict[str, str] = {}

    def stream(self, stream: str) -> PageStream:
        return self.streams.setdefault(stream, PageStream())

    async def call(self, method: str, *args: Any) -> Any:
        name = await self._send(method, *args)
        reply = await self.until(lambda: next((each for each in self.frames if each.get("id") == name), None))
        assert reply["success"], reply
        return reply["result"]

    async def _send(self, method: str, *args: Any) -> str:
        self._calls += 1
        name = f"c{self._calls}"
        await self._socket.send(json.dumps({"type": "rpc", "id": name, "method": method, "args": args}))
        return name

    async def until(self, fact: Any) -> Any:
        """Read on until something is true."""
        async with asyncio.timeout(PATIENCE):
            while not (found := fact()):
                await self._take(json.loads(await self._socket.recv()))
            return found

    async def _take(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        kind = frame["type"]
        if kind == "cf_agent_state":
            self.state = frame["state"]
            active = self.state["activeStreamId"]
            if active is not None and active not in self._asked.values():
                self._asked[await self._send("get_stream_history", active)] = active
        elif kind.startswith("rsm_stream_"):
            page = self.stream(frame["streamId"])
            page.frame(frame)
            if page.needs_history:
                self._asked[await self._send("get_stream_history", frame["streamId"])] = frame["streamId"]
        elif kind == "rpc" and frame.get("id") in self._asked:
            self.stream(self._asked[frame["id"]]).history(frame["result"])

    async def shows(self, stream: str, text: str) -> None:
        await self.until(lambda: self.stream(stream).text == text)

    async def ended(self, stream: str) -> None:
        """Wait for the end, and for the state that follows it."""
        await self.until(lambda: self.stream(stream).status != "streaming")
        await self.until(lambda: self.state["activeStreamId"] != stream)


@asynccontextmanager
async def tab(url: str) -> AsyncIterator[Tab]:
    address = url.replace("http", "ws")
    async with open_socket(f"{address}/agents/talk/ann", max_size=None) as socket:
        page = Tab(socket)
        await page.until(lambda: page.state)
        yield page
