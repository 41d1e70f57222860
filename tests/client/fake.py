"""A small server with the frames of agents: identity, state, calls, and any frame that a test sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response


class FakeAgent:
    """Keeps a state, refuses the state "bad", and answers the methods below."""

    def __init__(self) -> None:
        self.state: Any = {"count": 0}
        self.port = 0
        self.sockets: list[ServerConnection] = []
        self.requests: list[Request] = []
        self.frames: list[Any] = []
        self.calls: list[str] = []
        self.reject: int | None = None
        self.close_with: tuple[int, str] | None = None
        self.is_deaf = False
        """True if frames are read and ignored, as by a process that is about to die."""
        self._heard = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def queries(self) -> list[dict[str, list[str]]]:
        return [parse_qs(urlsplit(request.path).query) for request in self.requests]

    async def until_heard(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.frames) < count:
                self._heard.clear()
                await self._heard.wait()

    async def say(self, frame: Any) -> None:
        for socket in self.sockets:
            await socket.send(frame if isinstance(frame, str) else json.dumps(frame))

    async def drop(self) -> None:
        for socket in list(self.sockets):
            socket.transport.abort()
            await socket.wait_closed()

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        return connection.respond(self.reject, "not you\n") if self.reject is not None else None

    async def serve(self, socket: ServerConnection) -> None:
        if self.close_with is not None:
            await socket.close(*self.close_with)
            return
        self.sockets.append(socket)
        try:
            await self._tell(socket, type="cf_agent_identity", name="ann", agent="counter", stateFollows=True)
            await self._tell(socket, type="cf_agent_state", state=self.state)
            async for text in socket:
                frame = json.loads(text)
                self.frames.append(frame)
                self._heard.set()
                if not self.is_deaf:
                    await self._take(socket, frame)
        except ConnectionClosed:
            pass
        finally:
            self.sockets.remove(socket)

    async def _take(self, socket: ServerConnection, frame: dict[str, Any]) -> None:
        if frame.get("type") == "cf_agent_state":
            if frame["state"] == "bad":
                await self._tell(socket, type="cf_agent_state_error", error="State update rejected")
                return
            self.state = frame["state"]
            for other in self.sockets:
                if other is not socket:
                    await self._tell(other, type="cf_agent_state", state=self.state)
        elif frame.get("type") == "rpc":
            await self._call(socket, frame["id"], frame["method"], frame["args"])

    async def _call(self, socket: ServerConnection, call: str, method: str, args: list[Any]) -> None:
        self.calls.append(method)
        match method:
            case "add":
                await self._tell(socket, type="rpc", id=call, success=True, result=sum(args), done=True)
            case "old_add":
                await self._tell(socket, type="rpc", id=call, success=True, result=sum(args))
            case "count":
                for number in range(args[0]):
                    await self._tell(socket, type="rpc", id=call, success=True, result=number, done=False)
                await self._tell(socket, type="rpc", id=call, success=True, done=True, result=args[1])
            case "break":
                await self._tell(socket, type="rpc", id=call, success=True, result=0, done=False)
                await self._tell(socket, type="rpc", id=call, success=False, error="it broke")
            case "hang":
                pass
            case _:
                await self._tell(socket, type="rpc", id=call, success=False, error=f"Method {method} does not exist")

    async def _tell(self, socket: ServerConnection, **frame: Any) -> None:
        await socket.send(json.dumps(frame))


@asynccontextmanager
async def fake_agent() -> AsyncIterator[FakeAgent]:
    agent = FakeAgent()
    async with serve(agent.serve, "127.0.0.1", 0, process_request=agent.admit, close_timeout=1) as server:
        agent.port = next(iter(server.sockets)).getsockname()[1]
        yield agent
