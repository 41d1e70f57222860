"""Small words for the server's tests: a real server on a free port, real connections, and readers of streams."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from everyword.agents import AIChatAgent, Turn
from everyword.messages.fold import MessageFold
from everyword.messages.server_fields import without_fields
from everyword.messages.sse import SseEvent, SseParser
from everyword.server import Everyword
from everyword.testing import Gate
from tests.cluster.relayed import behind_a_link, is_relaying
from tests.timeouts import PATIENCE

Item = str | dict[str, Any] | Gate | Exception


def scripted(script: Iterable[Item] | Callable[[Turn], Iterable[Item]], **members: Any) -> type[AIChatAgent]:
    """Return an agent class of kind `chat` that plays a script; `turns` records what it was asked."""
    turns: list[Turn] = []

    async def on_chat_message(self: AIChatAgent, turn: Turn) -> Any:
        turns.append(turn)
        for item in script(turn) if callable(script) else script:
            if isinstance(item, Gate):
                await item.wait()
            elif isinstance(item, Exception):
                raise item
            else:
                yield item

    return type("Chat", (AIChatAgent,), {"on_chat_message": on_chat_message, "turns": turns, **members})


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[str]:
    """Run the application behind a real socket, in the test's own loop; yield its URL."""
    async with behind_a_link(app) if is_relaying() else nullcontext((app, None)) as (served, _):
        async with _serving(served, **options) as url:
            yield url


@asynccontextmanager
async def _serving(app: Any, **options: Any) -> AsyncIterator[str]:
    options.setdefault("ws", "everyword.server.uvicorn_websocket:UvicornWebSocketProtocol")
    config = uvicorn.Config(app, log_config=None, access_log=False, **options)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with asyncio.timeout(PATIENCE):
        await server.startup(sockets=[listener])
    try:
        yield url
    finally:
        async with asyncio.timeout(PATIENCE):
            await server.shutdown(sockets=[listener])


@asynccontextmanager
async def talking(app: Any, name: str = "ann", **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Run the application, and yield a client whose base is one of its agents."""
    async with serving(app) as url, connect(f"{url}/agents/chat/{name}", **options) as client:
        yield client


def connect(url: str, **options: Any) -> httpx.AsyncClient:
    # No TLS here, and loading its certificates takes longer than most tests.
    return httpx.AsyncClient(base_url=url, verify=False, timeout=PATIENCE, **options)


def chat(*agents: type[AIChatAgent], **options: Any) -> Everyword:
    app = Everyword(agents, **{"store": "memory:", **options})
    app.grace = 0.0
    return app


def user(message_id: str, text: str = "hi") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def bare(messages: Iterable[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """The messages without the server's fields (R-37): what people and models said."""
    return [without_fields(message) for message in messages or ()]


def question(message_id: str = "u1", text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"id": "chat", "messages": [user(message_id, text)], "trigger": "submit-message", **more}


@dataclass
class Reader:
    """A response being read: its events so far, and when it is over."""

    response: httpx.Response
    events: list[SseEvent] = field(default_factory=list)
    raw: bytes = b""

    def __post_init__(self) -> None:
        self._bytes = self.response.aiter_raw()
        self._parser = SseParser()

    async def until(self, fact: Callable[[SseEvent], bool]) -> SseEvent:
        """Read on until an event makes it true; what was read before counts."""
        checked = 0
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in self.events[checked:]:
                    if fact(event):
                        return event
                checked = len(self.events)
                await self._more()

    async def rest(self) -> list[SseEvent]:
        """Read to the end of the response; return all events."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self._more()
                except StopAsyncIteration:
                    return self.events

    async def aclose(self) -> None:
        await self._bytes.aclose()  # type: ignore[attr-defined]

    async def _more(self) -> None:
        piece = await anext(self._bytes)
        self.raw += piece
        self.events += self._parser.feed(piece)

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return chunks_of(self.events)


@asynccontextmanager
async def reading(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> AsyncIterator[Reader]:
    async with client.stream(method, path, **options) as response:
        reader = Reader(response)
        try:
            yield reader
        finally:
            await reader.aclose()


async def ask(client: httpx.AsyncClient, body: dict[str, Any] | None = None, **headers: str) -> Reader:
    """Ask a question and read its whole answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with reading(client, "POST", "chat", json=body or question(), headers=named) as reader:
        await reader.rest()
    return reader


def chunks_of(events: Iterable[SseEvent]) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events if event.data != "[DONE]"]


def folded(chunks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that a client would show."""
    fold = MessageFold("")
    for chunk in chunks:
        if chunk["type"] == "start":
            fold = MessageFold(chunk.get("messageId", ""))  # a stream that starts anew replaces what is there
        fold.apply(chunk)
    return fold.message().to_dict()


def ending(events: list[SseEvent]) -> dict[str, Any]:
    """Return how the stream said that the turn ended; the last event must be the end."""
    assert events[-1].data == "[DONE]"
    last: dict[str, Any] = json.loads(events[-2].data) if len(events) > 1 else {}
    return last if last.get("type") in ("error", "abort") else {"type": "finish"}


def text_of(message: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in message["parts"] if part["type"] == "text")
