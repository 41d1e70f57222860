"""The people in front of the screens: they ask, stop, answer, are cut off, and remember what they were shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import WebSocketException

from everyword.client.protocol.chat import ChatProtocol
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import open_calls
from tests.chaos.agents import FORGETFUL

__all__ = ["PATIENCE", "Looker", "Server", "Tab", "come_to_rest", "text_of"]

PATIENCE = 60.0

Json = dict[str, Any]


class Server(Protocol):
    """What a client knows of the server."""

    port: int
    is_closing: bool

    async def until_up(self) -> None: ...
    def heard(self) -> None: ...


def text_of(message: Json) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


class Memory:
    """What one client was shown of a conversation, and what of it went away again."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self._may_forget = name, kind in FORGETFUL
        self.texts: dict[str, str] = {}
        """Message → its text when it was last shown."""
        self.problems: list[str] = []

    def shown(self, messages: list[Json]) -> None:
        for message in messages:
            before, now = self.texts.get(message["id"], ""), text_of(message)
            if not now.startswith(before) and not self._may_forget:
                self.problems.append(f"{self.name}: {message['id']} said {before!r}, and now {now!r}")
            self.texts[message["id"]] = now


class Tab:
    """One page of one conversation: the client's half of the protocol, over a real socket, for as long as it takes."""

    def __init__(self, server: Server, kind: str, number: int, chance: Random) -> None:
        self.kind, self.name = kind, f"{kind}-{number}"
        self.protocol = ChatProtocol()
        self._is_greeted = False
        self.memory = Memory(self.name, kind)
        self.words: dict[tuple[str, int], str] = {}
        """(request, seq) → the chunk that was shown live."""
        self.terminals: dict[str, list[Json]] = {}
        self.asked: list[str] = []
        self.sockets = 0
        self._server, self._chance = server, chance
        self._answered: set[str] = set()
        self._news = asyncio.Event()
        self._socket: ClientConnection | None = None

    @property
    def agent(self) -> str:
        return f"{self.kind}/ann"

    # -- being connected -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Be there until cancelled; come back whenever the server does."""
        url = f"ws://127.0.0.1:{self._server.port}/agents/{self.agent}?_pk={self.name}"
        while True:
            await self._server.until_up()
            try:
                async with open_socket(url, max_size=None, proxy=None, close_timeout=0.1) as socket:
                    self.sockets, self._socket = self.sockets + 1, socket
                    self.protocol.connected()
                    await self._converse(socket)
            except (OSError, WebSocketException, TimeoutError):
                await asyncio.sleep(0)  # it is dead, or dying
            finally:
                self._socket = None
                self.protocol.disconnected()

    async def _converse(self, socket: ClientConnection) -> None:
        while True:
            self._act()
            await self.say()
            text = await socket.recv()
            self._take(msgspec.json.decode(text))
            if not self._server.is_closing and self._chance.random() < 0.001:
                return  # the train enters a tunnel

    async def say(self) -> None:
        """Send what is to be sent; without a socket it waits for the next one."""
        if self._socket is not None:
            for frame in self.protocol.frames_to_send():
                await self._socket.send(frame)

    def _take(self, frame: Json) -> None:
        self._server.heard()
        self._news.set()
        if frame["type"] == "cf_agent_chat_messages":
            self.memory.shown(frame["messages"])
        if frame["type"] == "cf_agent_use_chat_response":
            if frame["done"] and "outcome" in frame:
                self.terminals.setdefault(frame["id"], []).append(frame)
            elif not frame.get("replay") and "seq" in frame:
                self.words[frame["id"], frame["seq"]] = frame["body"]
        self._is_greeted = self._is_greeted or frame["type"] == "cf_agent_identity"
        self.protocol.receive(frame)

    # -- what people do --------------------------------------------------------------------------------------------

    def _act(self) -> None:
        if not self._is_greeted:
            return
        self._answer()
        if self._server.is_closing:
            return
        waiting = [request for request in self.asked if request not in self.protocol.endings]
        if not waiting or self._chance.random() < 0.002:
            self._ask()
        elif self._chance.random() < 0.003:
            self.protocol.stop(self._chance.choice(waiting))

    def _ask(self) -> None:
        request = f"{self.name}-{len(self.asked)}"
        self.asked.append(request)
        question = {"id": f"u-{request}", "role": "user", "parts": [{"type": "text", "text": f"Why {request}?"}]}
        self.protocol.ask(request, [*self.protocol.messages, question])

    def _answer(self) -> None:
        """Settle what the agent asks the page or a person, once it has stopped talking."""
        if self.protocol.is_streaming:
            return
        for part in self.open_calls():
            call = part["toolCallId"]
            if call in self._answered:
                continue
            self._answered.add(call)
            if part.get("approval") is not None:
                self.protocol.approve(call, self._chance.random() < 0.8)
            else:
                self.protocol.answer(call, {"city": "Bern"})

    def open_calls(self) -> list[Json]:
        last = self.protocol.messages[-1] if self.protocol.messages else None
        return list(open_calls(UIMessage.from_dict(last))) if last is not None and last["role"] == "assistant" else []

    # -- coming to rest ------------------------------------------------------------------------------------------

    async def until(self, fact: Callable[[], bool]) -> None:
        while not fact():
            self._news.clear()
            await self._news.wait()

    @property
    def is_at_rest(self) -> bool:
        """Whether all questions of this page have ended, and none is waited for."""
        return all(request in self.protocol.endings for request in self.asked) and not self.protocol.is_streaming

    def describe(self) -> str:
        waiting = [request for request in self.asked if request not in self.protocol.endings]
        calls = [part["toolCallId"] for part in self.open_calls()]
        now = f"runs {self.protocol.running}, open calls {calls}"
        return (
            f"{self.name}: waits for {waiting}, {now}, {self.sockets} sockets, {len(self.protocol.messages)} messages"
        )


class Looker:
    """A client without a page: reads conversations over HTTP, one after the other."""

    def __init__(self, server: Server, kinds: Iterable[str], chance: Random) -> None:
        self.memories = {f"{kind}/ann": Memory(f"a reader of {kind}", kind) for kind in kinds}
        self.looks = 0
        self._server, self._chance = server, chance

    async def run(self) -> None:
        """Look again and again until cancelled."""
        url = f"http://127.0.0.1:{self._server.port}/agents"
        async with httpx.AsyncClient(base_url=url, verify=False, timeout=20.0, trust_env=False) as client:
            while True:
                await self._server.until_up()
                agent = self._chance.choice(list(self.memories))
                try:
                    answer = await client.get(f"{agent}/get-messages")
                except httpx.TransportError:
                    await asyncio.sleep(0)
                    continue
                if answer.status_code == 200:
                    self.looks += 1
                    self.memories[agent].shown(answer.json())


def _client(url: str) -> httpx.AsyncClient:
    # An answer that is still given is waited for; certificates take longer to load than most tests.
    return httpx.AsyncClient(base_url=url, verify=False, trust_env=False, timeout=PATIENCE)


async def come_to_rest(server: Server, tabs: list[Tab]) -> None:
    """Leave a running server alone until every answer has ended and every client has it."""
    url = f"http://127.0.0.1:{server.port}/agents"
    step = ""
    try:
        async with asyncio.timeout(PATIENCE), _client(url) as client:
            for agent in sorted({tab.agent for tab in tabs}):
                mine = [tab for tab in tabs if tab.agent == agent]
                while True:
                    for tab in mine:
                        step = f"{tab.name} to come to rest"
                        await tab.until(lambda: tab.is_at_rest and not tab.open_calls())  # noqa: B023
                    step = f"{agent} to have nothing to stream"
                    if (await client.get(f"{agent}/chat/stream")).status_code == 204:
                        break
            for tab in tabs:
                mark = tab.protocol.stop("nothing")  # confirmed behind everything that the server had for this page
                step = f"{tab.name} to be confirmed"
                await tab.say()
                await tab.until(lambda: tab.protocol.is_confirmed(mark))  # noqa: B023
    except TimeoutError:
        everybody = "\n".join(tab.describe() for tab in tabs)
        raise AssertionError(f"waited for {step} in vain:\n{everybody}") from None
