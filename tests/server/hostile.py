"""A conversation under attack: an agent with a tool that must not run, and clients that send whatever they like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from everyword.agents import AIChatAgent, Turn
from everyword.agents.tools import tool
from everyword.messages.message import UIMessage
from everyword.messages.model_messages import convert_to_model_messages
from everyword.messages.prune_messages import prune_messages
from everyword.messages.repair_tool_calls import repair_calls
from everyword.models.anthropic_messages import to_anthropic
from everyword.models.openai_messages import to_openai, to_openai_responses
from everyword.models.pydantic_ai_messages import deferred_results, to_pydantic_ai
from everyword.server import Limits
from everyword.testing import LocalServer
from everyword.testing.network import Socket
from tests.server.kit import user
from tests.timeouts import PATIENCE

Frame = dict[str, Any]
JsonObject = dict[str, Any]

DONE = "Done."
MANY = 1_000_000


class Chat(AIChatAgent):
    """Answers every question with one word, after telling it to every kind of model."""

    paid: ClassVar[list[Any]] = []

    async def on_chat_message(self, turn: Turn) -> Any:
        tell_models(self.messages)
        async for step in turn.steps():
            tell_models(step.messages)
            async for chunk in step.run([DONE]):
                yield chunk

    @tool
    async def pay(self, amount: float = 0) -> str:
        """Spend money."""
        self.paid.append(amount)
        return "paid"

    @tool(needs_approval=True)
    async def refund(self, amount: float = 0) -> str:
        """Give money back."""
        self.paid.append(-amount)
        return "refunded"


def tell_models(messages: list[UIMessage]) -> None:
    """Convert a conversation for every model that there is."""
    repaired = repair_calls(messages, answerable=lambda part: False)
    prune_messages(convert_to_model_messages(repaired), reasoning="all", tool_calls="before-last-message")
    for convert in (convert_to_model_messages, to_openai, to_openai_responses, to_anthropic, to_pydantic_ai):
        convert(messages)
    deferred_results(messages)
    assert all(isinstance(message.text, str) for message in messages)


class Tab:
    """A raw client on a socket without a network: what it was sent, and what it waits for."""

    def __init__(self, socket: Socket) -> None:
        self.socket, self.frames = socket, list[Frame]()
        self._incoming = aiter(socket)

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def ask(self, request: Any, messages: Any, **more: Any) -> None:
        body = json.dumps({"messages": messages, **more})
        await self.send(type="cf_agent_use_chat_request", id=request, init={"method": "POST", "body": body})

    async def sync(self, messages: Any) -> None:
        await self.send(type="cf_agent_chat_messages", messages=messages)

    async def until(self, **fields: Any) -> Frame:
        """Read on until a frame has these fields; raises StopAsyncIteration if the socket is closed before."""
        async with asyncio.timeout(PATIENCE):
            while True:
                frame: Frame = json.loads(await anext(self._incoming))
                self.frames.append(frame)
                if fields.items() <= frame.items():
                    return frame

    async def ended(self, request: str) -> Frame:
        return await self.until(id=request, done=True)

    async def settled(self) -> None:
        """Wait until everything that this client sent was taken, and answered if it is answered at all."""
        mark = f"mark-{len(self.frames)}"
        await self.send(type="rpc", id=mark, method="nothing", args=[])
        await self.until(id=mark)


class Target:
    """One agent, and the ways to it."""

    def __init__(self, server: LocalServer, name: str, agent: type[Chat] = Chat) -> None:
        self.server, self.name = server, name
        self.path = f"{agent.__name__.lower()}/{name}"
        self.http = server.http(agent, name)
        self.network = server.network()

    @asynccontextmanager
    async def tab(self) -> AsyncIterator[Tab]:
        """Open a socket; it is closed, and done with, at the end."""
        try:
            yield Tab(await self.network.connect(f"http://localhost/agents/{self.path}", {}))
        finally:
            await self.network.aclose()

    async def stored(self) -> list[JsonObject]:
        found: list[JsonObject] = (await self.http.get("get-messages")).json()
        return found

    async def check_works(self, tab: Tab, request: str) -> None:
        """Prove that the conversation goes on: an ordinary question is answered on the socket that is still open."""
        await tab.ask(request, [*await self.stored(), user(f"u-{request}")])
        end = await tab.ended(request)
        assert (end.get("outcome"), end.get("error")) == ("completed", None), end
        stored = await self.stored()
        assert [message["role"] for message in stored[-2:]] == ["user", "assistant"]
        assert [part["text"] for part in stored[-1]["parts"] if part["type"] == "text"] == [DONE]

    async def post(self, messages: Any, **more: Any) -> int:
        """Post a question, read the answer to its end, and return the status."""
        async with asyncio.timeout(PATIENCE):
            return (await self.http.post("chat", json={"messages": messages, **more})).status_code


@asynccontextmanager
async def attacked() -> AsyncIterator[LocalServer]:
    Chat.paid.clear()
    async with LocalServer(Chat, limits=Limits(requests_per_minute=MANY, calls_per_minute=MANY)) as server:
        yield server
