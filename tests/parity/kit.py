"""A real server on a real socket, an agent that answers step by step, and raw clients that fold what they are sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import websockets

from everyword.agents import Agent
from everyword.client.protocol.chat import ChatProtocol, Ended
from everyword.errors import ChatError
from everyword.log.base import LogStore
from everyword.server.app import Everyword
from everyword.server.limits import Limits
from tests.agents.bases import Asked
from tests.server.kit import serving as serve_app
from tests.timeouts import PATIENCE


class Steps:
    """Lets an answer go on one item at a time; `waiting` tells that it stands still."""

    def __init__(self) -> None:
        self._allowed = asyncio.Semaphore(0)
        self.free = asyncio.Event()

    def allow(self, count: int = 1) -> None:
        for _ in range(count):
            self._allowed.release()

    async def next(self) -> None:
        if not self.free.is_set():
            await self._allowed.acquire()


STEPS: dict[str, Steps] = {}


class Chat:
    """Plays the script that came with the request: text, chunks, or a word for something that goes wrong."""

    is_plain = True

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        steps = STEPS.setdefault(self.name, Steps())
        for item in asked.turn.body.get("script", []):
            await steps.next()
            if item == "!throw":
                raise ValueError("secret")
            if item == "!say":
                raise ChatError("shown on purpose")
            if item == "!hang":
                await asked.turn.cancelled
            yield item
        await steps.next()

    def sanitize_message_for_persistence(self, message: Any) -> Any:
        if any("unspeakable" in str(part.get("text", "")) for part in message.parts if message.role == "assistant"):
            raise ValueError("cannot")
        return message


class Server:
    def __init__(self, port: int, app: Everyword, agent: type[Agent], http: httpx.AsyncClient) -> None:
        self.port, self.app, self.agent, self.http = port, app, agent, http

    def steps(self, name: str) -> Steps:
        return STEPS.setdefault(name, Steps())

    async def stored(self, name: str) -> list[dict[str, Any]]:
        answer = await self.http.get(f"/agents/chat/{quote(name)}/get-messages")
        assert answer.status_code == 200
        return answer.json()


@contextlib.asynccontextmanager
async def serving(store: LogStore | str, agent: type[Agent], *, grace: float = 10.0) -> AsyncIterator[Server]:
    """Serve an agent; `grace` is read when the app starts, so it cannot be set later."""
    STEPS.clear()
    app = Everyword([agent], store=store, limits=Limits(requests_per_minute=100_000))
    app.grace = grace
    async with (
        serve_app(app, timeout_graceful_shutdown=1) as url,
        httpx.AsyncClient(base_url=url, verify=False) as http,
    ):
        port = urlsplit(url).port
        assert port is not None
        yield Server(port, app, agent, http)


class Client:
    """One raw client: a socket, the protocol's client half, and what it was sent."""

    def __init__(self, server: Server, name: str, *, acknowledges: bool = True, probes: bool = True) -> None:
        self.protocol, self.frames = ChatProtocol(), list[dict[str, Any]]()
        self.held: list[str] = []
        self._server, self._name, self._acks, self._probes = server, name, acknowledges, probes
        self._socket: websockets.ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def connect(self) -> Client:
        url = f"ws://127.0.0.1:{self._server.port}/agents/chat/{quote(self._name)}?_pk=pk-{id(self)}"
        self._socket = await websockets.connect(url, max_size=None, compression=None)
        if self._probes:
            self.protocol.connected()
        await self.flush()
        self._reading = asyncio.create_task(self._read(self._socket), name=f"client of {self._name}")
        return self

    async def _read(self, socket: websockets.ClientConnection) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in socket:
                assert isinstance(text, str)
                self.frames.append(json.loads(text))
                self.protocol.receive(text)
                await self.flush()
                self._changed.set()
        self._changed.set()

    async def flush(self) -> None:
        assert self._socket is not None
        for frame in self.protocol.frames_to_send():
            if not self._acks and "resume_ack" in frame:
                self.held.append(frame)
                continue
            await self._socket.send(frame)

    async def acknowledge_late(self) -> None:
        assert self._socket is not None
        for frame in self.held:
            await self._socket.send(frame)
        self.held = []

    async def send(self, **frame: Any) -> None:
        assert self._socket is not None
        await self._socket.send(json.dumps(frame))

    async def drop(self) -> None:
        """Lose the connection."""
        assert self._socket is not None and self._reading is not None
        await self._socket.close()
        await self._reading
        self.protocol.disconnected()

    async def ask(self, request: str, text: str, script: list[Any], **body: Any) -> None:
        message = {"id": f"u-{request}", "role": "user", "parts": [{"type": "text", "text": text}]}
        self.protocol.ask(request, [*self.protocol.messages, message], script=script, **body)
        await self.flush()

    async def until(self, fact: Callable[[Client], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not fact(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            told = "\n".join(json.dumps(frame)[:300] for frame in self.frames)
            raise AssertionError(f"{self._name}: it did not come; this client was sent\n{told}") from None

    async def ended(self, request: str) -> Ended:
        await self.until(lambda me: request in me.protocol.endings)
        return self.protocol.endings[request]

    async def settled(self) -> None:
        """Wait until everything that the server has for this client is here: it answers an rpc behind it."""
        mark = f"mark-{len(self.frames)}"
        await self.send(type="rpc", id=mark, method="nothing", args=[])
        await self.until(lambda me: any(frame.get("id") == mark for frame in me.frames))

    def chunks(self, request: str) -> int:
        return sum(1 for f in self.frames if f.get("id") == request and f.get("body") and not f.get("done"))

    @property
    def shown(self) -> list[dict[str, Any]]:
        return self.protocol.messages


@contextlib.asynccontextmanager
async def clients(*open_ones: Client) -> AsyncIterator[None]:
    for client in open_ones:
        await client.connect()
    try:
        yield
    finally:
        for client in open_ones:
            await client.drop()
