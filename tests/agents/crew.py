"""A boss and its sub-agents, in both base classes: the input of a sub-agent says what it does.

Words are said one by one; `fail` fails, `gate:x` waits for a gate, `slow` reports progress, `ask` asks the page.
A boss is asked with a JSON list of inputs, calls the tool `kid` for each, and says what it was told.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from everyword import AIChatAgent, ChatError, Everyword, Think, UIMessage, tool
from everyword.agents.agent_tools import agent_tool
from everyword.agents.agent_tools.types import AgentToolResult, AgentToolRun
from everyword.agents.execution_context import turn_of_agent
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.messages.tool_calls import tool_parts
from everyword.testing import Gate
from tests.loaded_agents import loaded_agent
from tests.runtime.kit import PATIENCE

__all__ = ["BASES", "GATES", "Crew", "asked", "crew", "running", "until", "user"]

GATES: dict[str, Gate] = defaultdict(Gate)
BASES = ["chat", "think"]


def user(message_id: str, text: str) -> UIMessage:
    return UIMessage(message_id, "user", [{"type": "text", "text": text}])


def asked(*inputs: str) -> UIMessage:
    return user("u", json.dumps(list(inputs)))


async def work(agent: Any, text: str) -> AsyncIterator[str]:
    """Do what the input says, and wait for every word to be committed."""
    call = turn_of_agent(agent._runtime.agent)
    assert call is not None
    said = call.partial.text.split() if call.partial is not None else []
    for word in text.split():
        if said and said[0] == word:
            said.pop(0)  # an attempt before was cut off behind it
            continue
        if word == "fail":
            raise ChatError(f"no good: {text}")
        if word.startswith("gate:"):
            await GATES[word].wait()
        elif word == "slow":
            await agent.agent_tools.report_progress(fraction=0.5, message=text)
        else:
            yield f"{word} "
            await call.message()


class ChatKid(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        text = next(message.text for message in reversed(self.messages) if message.role == "user")
        if text == "ask":
            yield {"type": "tool-input-available", "toolCallId": "q", "toolName": "page", "input": {}}
            return
        async for word in work(self, text):
            yield word

    @tool(client=True)
    async def page(self) -> str: ...


class ThinkKid(Think):
    def get_model(self) -> Any:
        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
            asked = _question(messages)
            if asked == "ask":
                yield {0: DeltaToolCall(name="page", json_args="{}", tool_call_id="q")}
                return
            yield ""  # a model of Pydantic AI must say something
            async for word in work(self, asked):
                yield word

        return FunctionModel(stream_function=stream)

    def error_text(self, exc: BaseException) -> str:
        return str(exc)

    @tool(client=True)
    async def page(self) -> str: ...


class _Hears:
    """Remembers what it heard of its runs."""

    heard: ClassVar[list[tuple[str, str, str]]]

    async def on_agent_tool_start(self, run: AgentToolRun) -> None:
        self.heard.append(("start", run.run_id, run.status))

    async def on_agent_tool_finish(self, run: AgentToolRun, result: AgentToolResult) -> None:
        self.heard.append(("finish", run.run_id, result.status))


class ChatBoss(_Hears, AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        question = json.loads(next(message.text for message in reversed(self.messages) if message.role == "user"))
        async for step in turn.steps():
            async for chunk in step.run(self._model(question, step.messages[-1])):
                yield chunk

    async def _model(self, question: list[str], last: UIMessage) -> AsyncIterator[Any]:
        yield {"type": "start-step"}
        told = [part.get("output") for part in tool_parts(last)] if last.role == "assistant" else []
        if told:
            yield json.dumps(told)
        else:
            for place, given in enumerate(question):
                named = {"toolCallId": f"c{place}", "toolName": "kid"}
                yield {"type": "tool-input-available", **named, "input": {"input": given}}
        yield {"type": "finish-step"}


class ThinkBoss(_Hears, Think):
    def get_model(self) -> Any:
        return FunctionModel(stream_function=_boss_model)

    def error_text(self, exc: BaseException) -> str:
        return str(exc)


async def _boss_model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    returned = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if returned:
        yield json.dumps(returned)
        return
    for place, given in enumerate(json.loads(_question(messages))):
        args = json.dumps({"input": given})
        yield {place: DeltaToolCall(name="kid", json_args=args, tool_call_id=f"c{place}")}


def _question(messages: list[ModelMessage]) -> str:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    # The first: what follows may be a word of Think's own, that the last answer was cut off.
    return str(next(part.content for part in parts if isinstance(part, UserPromptPart)))


async def until(fact: Callable[[], bool | Awaitable[bool]]) -> None:
    """Poll a fact that needs an await, and let other tasks run in between."""
    async with asyncio.timeout(PATIENCE):
        while not (await given if inspect.isawaitable(given := fact()) else given):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0)


class Crew:
    """A boss and a kid of one base class, as new classes, so that nothing is shared between tests."""

    def __init__(self, base: str, **members: Any) -> None:
        kid, boss = (ChatKid, ChatBoss) if base == "chat" else (ThinkKid, ThinkBoss)
        self.kid: type[Any] = type("Kid", (kid,), {})
        offered = {"tools": [agent_tool(self.kid, description="Does what it is told.")], "heard": []}
        self.boss: type[Any] = type("Boss", (boss,), {**offered, **members})


def crew(base: str, **members: Any) -> Crew:
    GATES.clear()
    return Crew(base, **members)


@asynccontextmanager
async def running(crew: Crew, store: LogStore | None = None, name: str = "ann") -> AsyncIterator[Any]:
    """Serve the crew and yield a boss."""
    app = Everyword([crew.boss], store=store if store is not None else MemoryLog())
    app.grace = 0.0
    async with app:
        yield await loaded_agent(app.get(crew.boss, name))
