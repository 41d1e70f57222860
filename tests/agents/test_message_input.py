"""Asking from an agent's own code: plain text, messages, and functions that give them; each request id once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.testing import Gate
from tests.agents.kit import dying, served


def user(text: str, message_id: str = "u1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


class Chat(AIChatAgent):
    gate: ClassVar[Gate | None] = None

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        if type(self).gate is not None:
            await type(self).gate.wait()
        yield f"You said: {self.messages[-1].text}"

    async def remind(self, text: str) -> None:
        await self.save_messages(text)


@pytest.fixture(autouse=True)
def fresh() -> None:
    Chat.gate = None


class Giving:
    """A function that gives messages, and knows how often."""

    def __init__(self, text: str = "hi") -> None:
        self.text, self.calls = text, 0

    def __call__(self, messages: list[UIMessage]) -> list[dict[str, Any]]:
        self.calls += 1
        return [user(f"{self.text} after {len(messages)}", f"u{len(messages)}")]


# -- functions and request ids -----------------------------------------------------------------------------------------


async def test_the_request_id_of_a_function_is_honoured() -> None:
    async with served(Chat) as serving:
        give = Giving()
        result = await serving.agent.save_messages(give, request_id="r1")
        assert (result.request_id, result.status) == ("r1", "completed")
        again = await serving.agent.save_messages(give, request_id="r1")
        assert (again.request_id, again.status, again.message) == ("r1", "completed", result.message)
        assert give.calls == 1
        assert [message.text for message in serving.agent.messages] == ["hi after 0", "You said: hi after 0"]


async def test_a_function_asked_twice_at_the_same_time_is_called_once() -> None:
    async with served(Chat) as serving:
        give = Giving()
        both = await asyncio.gather(*(serving.agent.save_messages(give, request_id="r1") for _ in range(2)))
        assert [result.status for result in both] == ["completed", "completed"]
        assert give.calls == 1 and len(serving.agent.messages) == 2


async def test_a_second_function_for_a_turn_that_runs_is_not_kept() -> None:
    async with served(Chat) as serving, serving.directory.attach(serving.agent._runtime.agent) as loaded:
        gate = Chat.gate = Gate()
        first, second = Giving(), Giving("other")
        asked = asyncio.create_task(serving.agent.save_messages(first, request_id="r1"))
        await gate.reached.wait()
        again = asyncio.create_task(serving.agent.save_messages(second, request_id="r1"))
        await asyncio.sleep(0)
        gate.open()
        results = [await asked, await again]
        assert results[0] == results[1]
        assert (first.calls, second.calls) == (1, 0)
        assert loaded.reconciler.turns.evaluations == {}


async def test_functions_without_an_id_are_turns_of_their_own() -> None:
    async with served(Chat) as serving:
        give = Giving()
        results = [await serving.agent.save_messages(give) for _ in range(2)]
        assert results[0].request_id != results[1].request_id
        assert give.calls == 2


# -- plain text --------------------------------------------------------------------------------------------------------


async def test_plain_text_is_one_question_of_the_user() -> None:
    async with served(Chat) as serving:
        result = await serving.agent.save_messages("hi")
        assert result.status == "completed"
        assert result.message is not None and result.message.text == "You said: hi"
        (asked, _) = serving.agent.messages
        assert (asked.role, asked.parts) == ("user", [{"type": "text", "text": "hi"}])
        await serving.agent.save_messages("hi")
        assert [message.text for message in serving.agent.messages] == ["hi", "You said: hi"] * 2
        assert len({message.id for message in serving.agent.messages}) == 4


async def test_plain_text_with_a_request_id_is_asked_once() -> None:
    async with served(Chat) as serving:
        results = [await serving.agent.save_messages("hi", request_id="r1") for _ in range(3)]
        assert {result.request_id for result in results} == {"r1"}
        assert [message.text for message in serving.agent.messages] == ["hi", "You said: hi"]


async def test_a_job_that_asks_with_plain_text_and_dies_asks_once() -> None:
    store = MemoryLog()
    gate = Chat.gate = Gate()
    async with dying(Chat, store) as serving:
        await serving.agent.queue("remind", "tea")
        await gate.reached.wait()
    Chat.gate = None
    async with served(Chat, store) as serving:
        assert await serving.agent.wait_until_stable(60)
        while await serving.agent.jobs.list(queued=True):  # noqa: ASYNC110 - the job hears of the turn's end
            await asyncio.sleep(0)
        assert [message.text for message in serving.agent.messages] == ["tea", "You said: tea"]


async def test_a_function_may_give_plain_text() -> None:
    async with served(Chat) as serving:
        result = await serving.agent.save_messages(lambda messages: f"question {len(messages)}")
        assert result.message is not None and result.message.text == "You said: question 0"
