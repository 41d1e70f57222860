"""Results given while the step that called the tool runs: with `autoContinue: false` the answer ends there (R-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword.agents.tools import tool
from everyword.core.commands import AnswerToolCall
from everyword.events import CallAnswered, TurnAccepted, TurnEnded, TurnKind, decode_event
from everyword.ids import CallId, RequestId, Seq
from everyword.log.memory import MemoryLog
from everyword.messages.tool_calls import CallAnswer, ErrorAnswer, OutputAnswer, open_calls, tool_parts
from tests.agents.bases import BASES, Asked, answering
from tests.agents.kit import AGENT, Served, dying, served
from tests.crash.test_answers_mid_stream import HOLDERS

QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
OSLO: CallAnswer = OutputAnswer("Oslo")


class Guide:
    """Calls tools of the page, and waits in the middle of the step: in the response, or in another call."""

    holder: ClassVar[str]
    calls: ClassVar[list[str]]
    hold: ClassVar[asyncio.Event]
    asked: ClassVar[int]

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        Guide.asked += 1
        if asked.answer is not None:
            yield "So be it."
            yield {"type": "finish", "finishReason": "stop"}
            return
        yield "Hm. "
        for name in self.calls:
            yield {"type": "tool-input-available", "toolCallId": name, "toolName": "where", "input": {}}
        if self.holder == "response":
            await self.hold.wait()
        else:
            yield {"type": "tool-input-available", "toolCallId": "held", "toolName": "linger", "input": {}}
        yield {"type": "finish", "finishReason": "tool-calls"}

    @tool(idempotent=True)
    async def linger(self) -> str:
        await self.hold.wait()
        return "lingered"

    @tool(client=True)
    async def where(self) -> str: ...


def prepare(holder: str, *calls: str) -> None:
    Guide.holder, Guide.calls, Guide.hold, Guide.asked = holder, list(calls), asyncio.Event(), 0


async def called(serving: Served) -> None:
    """Wait until the page is asked for everything, and the answer still streams."""
    async with serving.directory.attach(AGENT) as loaded, loaded.subscribe() as subscription:

        def is_asked(state: Any) -> bool:
            folds = [turn.fold for turn in state.chat_turns() if turn.fold is not None]
            waiting = {part["toolCallId"] for fold in folds for part in open_calls(fold.message())}
            return set(Guide.calls) <= waiting and (Guide.holder == "response" or "held" in waiting)

        while not await loaded.actor.inspect(is_asked):
            await subscription.next()


async def give(serving: Served, call: str, answer: CallAnswer, *, goes_on: bool) -> None:
    async with serving.directory.attach(AGENT) as loaded:
        command = AnswerToolCall(CallId(call), answer, RequestId(f"more-{call}"), auto_continue=goes_on)
        assert await loaded.actor.ask(command)


async def at_rest(serving: Served) -> None:
    serving.clock.advance(1_000)
    await serving.agent._runtime.wait_until_idle()


@pytest.mark.parametrize("answer", [OSLO, ErrorAnswer("no signal")], ids=["result", "error"])
@pytest.mark.parametrize(("base", "holder"), HOLDERS)
async def test_without_auto_continue_the_answer_ends_with_its_step(base: str, holder: str, answer: CallAnswer) -> None:
    prepare(holder, "c1")
    async with served(answering(base, Guide)) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([QUESTION]))
        await called(serving)
        await give(serving, "c1", answer, goes_on=False)
        Guide.hold.set()
        assert (await asking).status == "completed"
        await at_rest(serving)
        assert (serving.agent.messages[-1].text, Guide.asked) == ("Hm. ", 1)
        result = await serving.agent.continue_last_turn()
        assert (result.status, serving.agent.messages[-1].text) == ("completed", "Hm. So be it.")
        assert Guide.asked == 2, "the client goes on, once"


@pytest.mark.parametrize(("base", "holder"), HOLDERS)
async def test_an_answer_that_goes_on_outweighs_one_that_does_not(base: str, holder: str) -> None:
    prepare(holder, "c1", "c2")
    async with served(answering(base, Guide)) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([QUESTION]))
        await called(serving)
        await give(serving, "c1", OSLO, goes_on=False)
        await give(serving, "c2", OSLO, goes_on=True)
        Guide.hold.set()
        assert (await asking).status == "completed"
        await at_rest(serving)
        assert (serving.agent.messages[-1].text, Guide.asked) == ("Hm. So be it.", 2)


@pytest.mark.parametrize(("base", "holder"), HOLDERS)
async def test_an_answer_given_after_the_step_behaves_alike(base: str, holder: str) -> None:
    prepare(holder, "c1", "c2")
    async with served(answering(base, Guide)) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([QUESTION]))
        await called(serving)
        await give(serving, "c1", OSLO, goes_on=False)
        Guide.hold.set()
        assert (await asking).status == "completed"
        await give(serving, "c2", OSLO, goes_on=False)
        await at_rest(serving)
        assert (serving.agent.messages[-1].text, Guide.asked) == ("Hm. ", 1)


@pytest.mark.parametrize("base", BASES)
async def test_a_later_attempt_does_not_go_on_either(base: str) -> None:
    prepare("call", "c1")
    store = MemoryLog()
    async with dying(answering(base, Guide), store) as serving:
        asyncio.create_task(serving.agent.save_messages([QUESTION]))  # noqa: RUF006 - it dies with the process
        await called(serving)
        await give(serving, "c1", OSLO, goes_on=False)
    Guide.hold.set()
    asked = Guide.asked
    async with served(answering(base, Guide), store) as serving:
        await at_rest(serving)
        answer = serving.agent.messages[-1]
        assert [part["state"] for part in tool_parts(answer)] == ["output-available", "output-available"]
        assert (answer.text, Guide.asked) == ("Hm. ", asked)


@pytest.mark.parametrize(("base", "holder"), HOLDERS)
async def test_the_log_says_which_turn_took_an_answer(base: str, holder: str) -> None:
    """A client that waits for a continuation learns from it that none comes."""
    prepare(holder, "c1")
    store = MemoryLog()
    async with served(answering(base, Guide), store) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([QUESTION]))
        await called(serving)
        await give(serving, "c1", OSLO, goes_on=True)
        Guide.hold.set()
        assert (await asking).status == "completed"
        await at_rest(serving)
        assert (serving.agent.messages[-1].text, Guide.asked) == ("Hm. So be it.", 2)
        events = [decode_event(stored.body) for stored in await store.read(AGENT, Seq(0), 1_000)]
    (answered,) = (event for event in events if isinstance(event, CallAnswered))
    first, continuation = (event for event in events if isinstance(event, TurnAccepted))
    assert (answered.turn, continuation.kind, continuation.during) == (first.turn, TurnKind.CONTINUATION, first.turn)
    ends = {event.turn: (event.outcome.value, event.reason) for event in events if isinstance(event, TurnEnded)}
    assert ends == {first.turn: ("completed", None), continuation.turn: ("skipped", "already-answered")}
