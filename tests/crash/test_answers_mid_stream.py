"""What people answer while the answer that asked still streams is acted on once, whatever the model says in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from holdfast.agents import AIChatAgent
from holdfast.agents.tools import tool
from holdfast.agents.turn import Turn
from holdfast.core.commands import Answer
from holdfast.ids import CallId, RequestId
from holdfast.messages.calls import Approval, CallAnswer, ToolResult, open_calls, tool_parts
from holdfast.messages.message import UIMessage
from tests.agents.kit import AGENT, Served, served

QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
ANSWERS: dict[str, tuple[str, CallAnswer, str, list[int]]] = {
    # tool, answer, state in the end, effects
    "approved": ("refund", Approval(True), "output-available", [5]),
    "refused": ("refund", Approval(False, "no"), "output-denied", []),
    "answered by the page": ("where", ToolResult("Oslo"), "output-available", []),
}


class Teller(AIChatAgent):
    """Calls one tool, and waits in the middle of the step that calls it."""

    name_of_tool: ClassVar[str]
    reason: ClassVar[str | None]
    hold: ClassVar[asyncio.Event]
    effects: ClassVar[list[int]]
    asked: ClassVar[int]

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async for step in turn.steps():
            async for chunk in step.run(self._model(step.messages[-1])):
                yield chunk

    async def _model(self, last: UIMessage) -> AsyncIterator[Any]:
        type(self).asked += 1
        yield {"type": "start-step"}
        if last.role == "user":
            given = {"amount": 5} if self.name_of_tool == "refund" else {}
            call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": self.name_of_tool}
            yield {**call, "input": given}
            yield "Hm. "
            await self.hold.wait()
        else:
            yield "So be it."
        yield {"type": "finish-step"}
        if self.reason is not None:
            yield {"type": "finish", "finishReason": self.reason}

    @tool(needs_approval=True)
    async def refund(self, amount: int) -> str:
        self.effects.append(amount)
        return "refunded"

    @tool(client=True)
    async def where(self) -> str: ...


async def asked_for(serving: Served) -> None:
    """Wait until the streaming answer waits for somebody, and all of its first step but the end is there."""
    async with serving.directory.attach(AGENT) as loaded, loaded.subscribe() as subscription:
        while not await loaded.actor.inspect(
            lambda state: any(
                turn.fold is not None and open_calls(turn.fold.message()) and "Hm. " in turn.fold.message().text
                for turn in state.chat_turns()
            )
        ):
            await subscription.next()


@pytest.mark.parametrize("reason", ["stop", "tool-calls", "length", None])
@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_given_while_it_streams_is_acted_on_once_whatever_reason_the_model_gives(
    kind: str, reason: str | None
) -> None:
    tool_name, given, state, effects = ANSWERS[kind]
    Teller.name_of_tool, Teller.reason, Teller.hold = tool_name, reason, asyncio.Event()
    Teller.effects, Teller.asked = [], 0
    async with served(Teller) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([QUESTION]))
        await asked_for(serving)
        async with serving.directory.attach(AGENT) as loaded:
            await loaded.actor.ask(Answer(CallId("c1"), given, RequestId("more")))
        Teller.hold.set()
        assert (await asking).status == "completed"
        serving.clock.advance(1_000)
        await serving.agent._port.wait_until_idle()
        answer = serving.agent.messages[-1]
    assert [part["state"] for part in tool_parts(answer)] == [state]
    assert (answer.text, Teller.asked, Teller.effects) == ("Hm. So be it.", 2, effects)
