"""What people answer while the answer that asked still streams is acted on once, whatever the model says in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword.agents.tools import tool
from everyword.core.commands import AnswerToolCall
from everyword.ids import CallId, RequestId
from everyword.messages.tool_calls import ApprovalAnswer, CallAnswer, OutputAnswer, open_calls, tool_parts
from tests.agents.bases import BASES, Asked, answering
from tests.agents.kit import AGENT, Served, served

QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
ANSWERS: dict[str, tuple[str, CallAnswer, str, list[int]]] = {
    # tool, answer, state in the end, effects
    "approved": ("refund", ApprovalAnswer(True), "output-available", [5]),
    "refused": ("refund", ApprovalAnswer(False, "no"), "output-denied", []),
    "answered by the page": ("where", OutputAnswer("Oslo"), "output-available", []),
}


HOLDERS = [
    (name, holder)
    for name, base in BASES.items()
    for holder in ("call", "response")
    if holder == "call" or base.calls_mid_response
]
"""What keeps the step from ending: a call beside the one that is answered, or the response itself."""


class Teller:
    """Calls one tool, and waits in the middle of the step that calls it: in the response, or in another call."""

    name_of_tool: ClassVar[str]
    reason: ClassVar[str | None]
    holder: ClassVar[str]
    hold: ClassVar[asyncio.Event]
    effects: ClassVar[list[int]]
    asked: ClassVar[int]

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        Teller.asked += 1
        if asked.answer is None:
            yield "Hm. "
            given = {"amount": 5} if self.name_of_tool == "refund" else {}
            call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": self.name_of_tool}
            yield {**call, "input": given}
            if self.holder == "response":
                await self.hold.wait()
            else:
                yield {"type": "tool-input-available", "toolCallId": "c2", "toolName": "linger", "input": {}}
        else:
            yield "So be it."
        if self.reason is not None:
            yield {"type": "finish", "finishReason": self.reason}

    @tool
    async def linger(self) -> str:
        await self.hold.wait()
        return "lingered"

    @tool(needs_approval=True)
    async def refund(self, amount: int) -> str:
        self.effects.append(amount)
        return "refunded"

    @tool(client=True)
    async def where(self) -> str: ...


async def asked_for(serving: Served) -> None:
    """Wait until the streaming answer waits for an approval, and all of its first step but the end is there."""
    async with serving.directory.attach(AGENT) as loaded, loaded.subscribe() as subscription:
        while not await loaded.actor.inspect(
            lambda state: any(
                turn.fold is not None and "c1" in [part["toolCallId"] for part in open_calls(turn.fold.message())]
                for turn in state.chat_turns()
            )
        ):
            await subscription.next()


@pytest.mark.parametrize("reason", ["stop", "tool-calls", "length", None])
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize(("base", "holder"), HOLDERS)
async def test_an_answer_given_while_it_streams_is_acted_on_once_whatever_reason_the_model_gives(
    base: str, holder: str, kind: str, reason: str | None
) -> None:
    tool_name, given, state, effects = ANSWERS[kind]
    Teller.name_of_tool, Teller.reason, Teller.hold, Teller.holder = tool_name, reason, asyncio.Event(), holder
    Teller.effects, Teller.asked = [], 0
    async with served(answering(base, Teller)) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([QUESTION]))
        await asked_for(serving)
        async with serving.directory.attach(AGENT) as loaded:
            await loaded.actor.ask(AnswerToolCall(CallId("c1"), given, RequestId("more")))
        Teller.hold.set()
        assert (await asking).status == "completed"
        serving.clock.advance(1)
        await serving.agent._runtime.wait_until_idle()
        answer = serving.agent.messages[-1]
    calls = {part["toolCallId"]: part["state"] for part in tool_parts(answer)}
    assert calls == {"c1": state, **({"c2": "output-available"} if holder == "call" else {})}
    assert (answer.text, Teller.asked, Teller.effects) == ("Hm. So be it.", 2, effects)
