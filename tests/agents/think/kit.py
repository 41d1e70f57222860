"""Models that say what a test wants, for agents that think."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from everyword.agents.think import Think
from everyword.core.commands import AnswerToolCall
from everyword.ids import CallId, RequestId
from everyword.messages.message import Part, UIMessage
from everyword.messages.tool_calls import CallAnswer, tool_parts
from tests.agents.kit import AGENT, Served

Item = str | dict[int, DeltaToolCall] | BaseException
Reply = list[Item] | Callable[[list[ModelMessage], AgentInfo], list[Item]]


class Script:
    """A model that answers from a list, one reply per question; `asked` is what it was sent, `infos` how."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []
        self.model = FunctionModel(stream_function=self._stream)

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        self.asked.append(list(messages))
        self.infos.append(info)
        reply = self.replies.pop(0)
        for item in reply(messages, info) if callable(reply) else reply:
            if isinstance(item, BaseException):
                raise item
            yield item

    def said(self, question: int) -> list[Any]:
        """Return the contents of everything in one question's history, in order."""
        return [getattr(part, "content", None) for message in self.asked[question] for part in message.parts]


def call(name: str, call_id: str = "c1", index: int = 1, **given: Any) -> dict[int, DeltaToolCall]:
    return {index: DeltaToolCall(name=name, json_args=json.dumps(given), tool_call_id=call_id)}


def thinker(script: Script, base: type[Think] = Think, **members: Any) -> type[Think]:
    """Return an agent class of kind `chat` that asks the script."""
    return type("Chat", (base,), {"model": script.model, **members})


def think(serving: Served) -> Think:
    assert isinstance(serving.agent, Think)
    return serving.agent


def calls_of(message: UIMessage | None) -> dict[str, Part]:
    assert message is not None
    return {part["toolCallId"]: part for part in tool_parts(message)}


async def answer(serving: Served, call_id: str, given: CallAnswer) -> None:
    """Answer a call as a client would, and wait for what follows."""
    async with serving.directory.attach(AGENT) as loaded:
        await loaded.actor.ask(AnswerToolCall(CallId(call_id), given, RequestId(f"go on {call_id}")))
    serving.clock.advance(1)
    await serving.agent._runtime.wait_until_idle()
