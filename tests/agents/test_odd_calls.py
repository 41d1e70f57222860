"""Calls as models should not make them: whatever is stored of one, later requests to a model are well formed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword.agents import AIChatAgent
from everyword.agents.tools import tool
from everyword.agents.turn import Turn
from everyword.messages.message import UIMessage
from everyword.models import to_anthropic, to_openai, to_openai_responses
from tests.agents.kit import served

QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}


class Finder(AIChatAgent):
    """Calls its tool once, with whatever the test gives, then says something."""

    given: ClassVar[Any]
    told: ClassVar[list[list[UIMessage]]]

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async for step in turn.steps():
            self.told.append(step.messages)
            async for chunk in step.run(self._model(step.messages[-1])):
                yield chunk

    async def _model(self, last: UIMessage) -> AsyncIterator[Any]:
        yield {"type": "start-step"}
        if last.role == "user":
            yield {"type": "tool-input-available", "toolCallId": "c1", "toolName": "find", "input": self.given}
        else:
            yield "sorry"
        yield {"type": "finish-step"}

    @tool
    async def find(self, number: str) -> str:
        return number


@pytest.mark.parametrize("given", ["text", None, 5, [1, 2]], ids=repr)
async def test_an_input_that_is_no_object_is_an_error_and_spoils_no_later_request_to_a_model(given: Any) -> None:
    """Trap 108."""
    Finder.given, Finder.told = given, []
    async with served(Finder) as serving:
        result = await serving.agent.save_messages([QUESTION])
    assert result.message is not None
    assert [part["state"] for part in result.message.parts if part["type"] == "tool-find"] == ["output-error"]
    assert result.message.text == "sorry"
    for messages in (Finder.told[-1], [UIMessage.from_dict(QUESTION), result.message]):
        completion = [call for message in to_openai(messages) for call in message.get("tool_calls", [])]
        assert [json.loads(call["function"]["arguments"]) for call in completion] == [{}]
        response = [item for item in to_openai_responses(messages) if item.get("type") == "function_call"]
        assert [json.loads(item["arguments"]) for item in response] == [{}]
        contents = [block for message in to_anthropic(messages)["messages"] for block in message["content"]]
        assert [block["input"] for block in contents if isinstance(block, dict) and block["type"] == "tool_use"] == [{}]
