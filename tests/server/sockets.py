"""A raw client of the stock protocol, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

from tests.server.kit import PATIENCE, user

Frame = dict[str, Any]


class Socket:
    """A raw client: what it was sent, and what it waits for."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.frames: list[Frame] = []

    async def send(self, **frame: Any) -> None:
        await self.connection.send(json.dumps(frame))

    async def ask(self, request: str, text: str = "hi") -> None:
        body = json.dumps({"messages": [user(f"u-{request}", text)]})
        await self.send(type="cf_agent_use_chat_request", id=request, init={"method": "POST", "body": body})

    async def until(self, fact: Callable[[Frame], bool]) -> Frame:
        """Read on until a frame makes it true; what was read before counts."""
        for frame in self.frames:
            if fact(frame):
                return frame
        async with asyncio.timeout(PATIENCE):
            while True:
                frame = json.loads(await self.connection.recv())
                self.frames.append(frame)
                if fact(frame):
                    return frame

    async def ended(self, request: str) -> Frame:
        return await self.until(lambda frame: frame.get("id") == request and frame.get("done") is True)

    async def answer(self, call: str, output: Any, **more: Any) -> None:
        """Give a client tool's result."""
        frame = {"toolName": "", "output": output, "autoContinue": True, **more}
        await self.send(type="cf_agent_tool_result", toolCallId=call, **frame)

    async def settled(self) -> None:
        """Wait until everything that the server has for this client is here: it answers an rpc behind it."""
        mark = f"mark-{len(self.frames)}"
        await self.send(type="rpc", id=mark, method="nothing", args=[])
        await self.until(lambda frame: frame.get("id") == mark)

    async def greeted(self) -> Frame:
        return await self.until(lambda frame: frame["type"] == "cf_agent_identity")

    async def closed(self) -> tuple[int, str]:
        """Wait until the server closes, with nothing said before; return the code and the reason."""
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ConnectionClosed) as over:
                await self.connection.recv()
        assert over.value.rcvd is not None
        return over.value.rcvd.code, over.value.rcvd.reason


@asynccontextmanager
async def socket(
    url: str, query: str = "", name: str = "ann", *, kind: str = "chat", **headers: str
) -> AsyncIterator[Socket]:
    where = urlsplit(url)
    # The Host header is the address's; where to connect to is said apart from it.
    address = f"ws://{headers.pop('host', where.netloc)}/agents/{kind}/{name}{query}"
    to: dict[str, Any] = {"host": where.hostname, "port": where.port}
    # A server on a busy machine may be slow to shake hands and to answer pings; no test is about that.
    patient: dict[str, Any] = {"open_timeout": PATIENCE, "ping_interval": None, "max_size": None, "proxy": None}
    async with open_socket(address, additional_headers=headers, **patient, **to) as connection:
        yield Socket(connection)
