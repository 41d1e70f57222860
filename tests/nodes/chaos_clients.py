"""Clients of several nodes that note what they see: some reconnect, some are plain sockets as a browser has them."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import websockets

from everyword.client import ChatClient, ChatFailed, ClientError
from everyword.client.backoff import Backoff
from tests.nodes.history import History, Listed, Seen
from tests.nodes.serving import NodeProcess

__all__ = ["Crowd", "SocketReader", "pass_time"]

SOONEST: Final = 0.05
"""Seconds between two attempts of a plain socket to connect."""


async def pass_time(seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


class SocketReader:
    """Reads the frames of one socket that never reconnects, and notes the texts and conversations that it shows."""

    def __init__(self, name: str, history: History, on_news: Callable[[], None]) -> None:
        self._name, self._history, self._on_news = name, history, on_news
        self._listed: tuple[str, ...] = ()
        self._last: deque[tuple[datetime, dict[str, Any]]] = deque(maxlen=60)
        """The last frames, for the report of a violation."""
        self._texts: dict[str, tuple[str, str]] = {}
        """Request → id and text of its answer, if this socket has seen it from its first chunk on."""

    def read(self, frame: dict[str, Any]) -> None:
        self._last.append((datetime.now(UTC), frame))
        if frame["type"] == "cf_agent_chat_messages":
            # Questions only: a socket that is behind is sent the newest list (B4), and streams its last answer later.
            ids = tuple(message["id"] for message in frame["messages"] if message["role"] == "user")
            self._history.listed.append(Listed(self._name, ids))
            if ids[: len(self._listed)] != self._listed:
                self._report("a shorter conversation")
            self._listed = ids
        elif frame["type"] == "cf_agent_use_chat_response":
            self._read_response(frame["id"], json.loads(frame["body"] or "{}"), frame["done"])
        self._on_news()

    def _report(self, what: str) -> None:
        lines = "\n  ".join(f"{at:%H:%M:%S.%f} {str(frame)[:100]} … {str(frame)[-150:]}" for at, frame in self._last)
        sys.stderr.write(f"{self._name} was sent {what}; its last frames:\n  {lines}\n")

    def _read_response(self, request: str, chunk: dict[str, Any], is_done: bool) -> None:
        if chunk.get("type") == "start" and request not in self._texts:
            self._texts[request] = chunk["messageId"], ""
        if request not in self._texts:
            return  # it began before this socket
        message, text = self._texts[request]
        text += chunk["delta"] if chunk.get("type") == "text-delta" else ""
        self._texts[request] = message, text
        self._history.seen.append(Seen(self._name, message, text, is_done))


class Crowd:
    """The clients of one run. They use one node after the other, drawn, until `is_over`."""

    def __init__(self, nodes: Sequence[NodeProcess], history: History, drawn: random.Random) -> None:
        self.history, self.is_over, self.sockets = history, False, 0
        self._nodes, self._random = nodes, drawn
        self._progress = asyncio.Event()

    def end(self) -> None:
        """Let all clients leave when they have what they wait for."""
        self.is_over = True
        self._progress.set()

    async def news(self) -> None:
        """Wait until any client sees something new."""
        if not self.is_over:  # nothing new may come any more
            self._progress.clear()
            await self._progress.wait()

    async def ask(self, chat: str) -> None:
        """Ask one question after the other, and now and then for a job."""
        count = 0
        while not self.is_over:
            with suppress(ClientError, OSError):
                async with self._client(chat) as client, _running(self._note(client, f"{chat}.asker")):
                    for _ in range(self._random.randint(1, 3)):
                        if not self.is_over:
                            count += 1
                            await self._ask(client, chat, count)

    async def watch(self, chat: str) -> None:
        """Follow the chat with a client that reconnects."""
        while not self.is_over:
            with suppress(ClientError, OSError):
                async with self._client(chat) as client, _running(self._note(client, f"{chat}.watcher")):
                    for _ in range(self._random.randint(10, 200)):
                        await self.news()

    async def stay(self, chat: str) -> None:
        """Follow the chat with a plain socket for as long as the server keeps it; then take another node."""
        while not self.is_over:
            node = self._random.choice(self._nodes)
            with suppress(OSError, httpx.HTTPError, websockets.WebSocketException):
                await self._read_stored(node, chat)
                async with websockets.connect(f"ws://127.0.0.1:{node.port}/agents/paced/{chat}", max_size=None) as it:
                    self.sockets += 1
                    reader = SocketReader(f"{chat}.socket{self.sockets}@{node.name}", self.history, self._progress.set)
                    async with _running(self._close_at_end(it)):
                        async for frame in it:
                            reader.read(json.loads(frame))
            await pass_time(SOONEST)

    async def _close_at_end(self, socket: websockets.ClientConnection) -> None:
        while not self.is_over:
            await self.news()
        await socket.close()

    def _client(self, chat: str) -> ChatClient:
        node = self._random.choice(self._nodes)
        return ChatClient(node.url, "paced", chat, backoff=Backoff(first=SOONEST, most=0.5))

    async def _ask(self, client: ChatClient, chat: str, count: int) -> None:
        question = " ".join(f"{chat}-{count}-{n}" for n in range(self._random.randint(5, 40)))
        self.history.unsure[chat].append(question)
        reply = client.send(question)
        if count % 3 == 0:
            with suppress(ClientError):  # if the owner is lost meanwhile, it may or may not have run
                await client.agent.call("wake_in", self._random.uniform(0.01, 1.0))
        try:
            await reply
        except ChatFailed as exc:
            self.history.failed.append(f"{chat}: {exc}")
            return
        if reply.outcome != "completed":
            self.history.failed.append(f"{chat}: a turn ended as {reply.outcome}")
        self.history.asked[chat].append(question)

    async def _note(self, client: ChatClient, name: str) -> None:
        while True:
            for message in client.messages:
                if message.role == "assistant":
                    self.history.seen.append(Seen(name, message.id, message.text))
            self._progress.set()
            await client.connection.change()

    async def _read_stored(self, node: NodeProcess, chat: str) -> None:
        async with httpx.AsyncClient(base_url=node.url, timeout=10) as http:
            answer = await http.get(f"/agents/paced/{chat}/get-messages")
            if answer.status_code == 200:
                ids = tuple(message["id"] for message in answer.json())
                self.history.listed.append(Listed(f"{chat}.reader", ids))


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
