"""The rules of recovery, for every base class: what died, stalled or failed is tried again, bounded, told honestly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword import TurnLimits
from everyword.agents import AIChatAgent, Continue, Recovery, Retry, SaveMessagesResult, Stop, Think, Wait
from everyword.core.commands import Submit
from everyword.errors import ChatError
from everyword.ids import MessageId, RequestId
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.runtime.recovery import backoff
from tests.agents.bases import BASES, Asked, answering
from tests.agents.kit import AGENT, Served, dying, served
from tests.timeouts import PATIENCE


class Dropped(ChatError):
    """A provider's connection that went away: may pass."""

    retryable = True


class Chat:
    """Says a sentence in two halves; what happens between them is the test's. Goes on from what was said."""

    halves: ClassVar[tuple[str, str]] = ("half ", "and the rest")
    between: ClassVar[Any]
    decisions: ClassVar[list[Any]]
    asked: ClassVar[list[Recovery]]
    exhausted: ClassVar[list[Recovery]]
    told: ClassVar[list[SaveMessagesResult]]
    attempts: ClassVar[list[tuple[int, str]]]
    """(attempt, what was said before it)"""
    heard: ClassVar[asyncio.Condition]

    async def reply(self, asked: Asked) -> AsyncIterator[str]:
        said = asked.answer.text if asked.answer is not None else ""
        Chat.attempts.append((asked.turn.attempt, said))
        if not said:
            yield self.halves[0]
        await Chat.between(asked.turn.attempt)
        yield self.halves[1]

    async def on_chat_recovery(self, ctx: Recovery) -> Any:
        if ctx.exhausted:
            Chat.exhausted.append(ctx)
            async with Chat.heard:
                Chat.heard.notify_all()
            return Continue()  # which is not heard
        Chat.asked.append(ctx)
        return Chat.decisions.pop(0) if Chat.decisions else Continue()

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        Chat.told.append(result)
        async with Chat.heard:
            Chat.heard.notify_all()


@pytest.fixture(params=BASES, autouse=True)
def agent(request: pytest.FixtureRequest) -> type[AIChatAgent] | type[Think]:
    Chat.decisions, Chat.asked, Chat.exhausted, Chat.told, Chat.attempts = [], [], [], [], []
    Chat.heard = asyncio.Condition()
    return answering(request.param, Chat)


async def submit(serving: Served, request: str = "r1") -> None:
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    async with serving.directory.attach(AGENT) as loaded:
        await loaded.actor.ask(Submit(RequestId(request), MessageId("a1"), [question]))


async def until(serving: Served, fact: Any) -> None:
    """Wait until a fact about the agent's state is true."""
    async with asyncio.timeout(PATIENCE):
        async with serving.directory.attach(AGENT) as loaded, loaded.subscribe() as subscription:
            while not await loaded.actor.inspect(fact):
                await subscription.next()


def has_said(text: str) -> Any:
    return lambda state: any(t.fold is not None and text in t.fold.message().text for t in state.chat_turns())


async def heard(fact: Any) -> None:
    async with asyncio.timeout(PATIENCE), Chat.heard:
        await Chat.heard.wait_for(fact)


async def pass_over(serving: Served, milliseconds: int) -> None:
    """Wait until a task sleeps for exactly this long, then let that time pass."""
    clock = serving.clock
    async with asyncio.timeout(PATIENCE):
        while clock.now() + milliseconds not in clock._sleepers.values():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
    clock.advance(milliseconds / 1000)


async def hang(attempt: int) -> None:
    await asyncio.Event().wait()


async def go_on(attempt: int) -> None:
    return None


async def left_open(agent: type[AIChatAgent], *, lives: int = 1) -> MemoryLog:
    """Return the log of processes that died in the middle of an answer."""
    store, Chat.between = MemoryLog(), hang
    for life in range(lives):
        async with dying(agent, store) as serving:
            if life == 0:
                await submit(serving)
            await until(serving, has_said("half "))
            async with asyncio.timeout(PATIENCE):
                while len(Chat.attempts) <= life:  # noqa: ASYNC110 - there is no event to wait for
                    await asyncio.sleep(0)
    Chat.between = go_on
    return store


async def recovered(agent: type[AIChatAgent], store: MemoryLog) -> tuple[SaveMessagesResult, UIMessage | None]:
    async with served(agent, store):
        await heard(lambda: Chat.told)
    return Chat.told[-1], Chat.told[-1].message


async def test_after_a_crash_the_hook_is_told_what_happened_and_the_answer_goes_on(agent: type[AIChatAgent]) -> None:
    result, message = await recovered(agent, await left_open(agent))
    assert (result.status, message and message.text) == ("completed", "half and the rest")
    assert Chat.attempts == [(1, ""), (2, "half ")], "the model is shown what was said"
    (asked,) = Chat.asked
    assert (asked.cause, asked.attempt, asked.request_id) == ("crash", 2, "r1")
    assert asked.partial is not None and asked.partial.text == "half "


async def test_retry_forgets_what_was_said(agent: type[AIChatAgent]) -> None:
    store = await left_open(agent)
    Chat.decisions = [Retry()]
    result, message = await recovered(agent, store)
    assert Chat.attempts == [(1, ""), (2, "")]
    assert (result.status, message and message.text) == ("completed", "half and the rest")


@pytest.mark.parametrize(("text", "status"), [(None, "aborted"), ("gone", "error")])
async def test_stop_keeps_what_was_said_and_ends_the_turn(
    agent: type[AIChatAgent], text: str | None, status: str
) -> None:
    store = await left_open(agent)
    Chat.decisions = [Stop(text)]
    result, message = await recovered(agent, store)
    assert (result.status, result.error, message and message.text) == (status, text, "half ")
    assert len(Chat.attempts) == 1


@pytest.mark.parametrize(("text", "status"), [(None, "aborted"), ("gone", "error")])
async def test_stop_can_forget_what_was_said(agent: type[AIChatAgent], text: str | None, status: str) -> None:
    store = await left_open(agent)
    Chat.decisions = [Stop(text, forget=True)]
    result, message = await recovered(agent, store)
    assert (result.status, result.error, message) == (status, text, None)
    assert len(Chat.attempts) == 1


async def test_wait_asks_again_later(agent: type[AIChatAgent]) -> None:
    store = await left_open(agent)
    Chat.decisions = [Wait(61), Continue()]
    async with served(agent, store) as serving:
        await pass_over(serving, 61_000)
        await heard(lambda: Chat.told)
    assert (len(Chat.asked), Chat.told[0].status) == (2, "completed")


async def test_a_turn_that_kills_every_process_is_given_up_once_and_the_hook_hears_of_it(
    agent: type[AIChatAgent],
) -> None:
    agent.turn_limits = TurnLimits(max_attempts=3)
    store = await left_open(agent, lives=3)
    async with served(agent, store):
        await heard(lambda: Chat.told and Chat.exhausted)
    (result,) = Chat.told
    assert (result.status, result.error) == ("error", agent.turn_limits.failed_text)
    assert result.message is not None and result.message.text == "half "
    assert len(Chat.attempts) == 3 and len(Chat.exhausted) == 1


async def test_a_failure_that_may_pass_is_tried_again_and_keeps_what_was_said(agent: type[AIChatAgent]) -> None:
    async def fail_twice(attempt: int) -> None:
        if attempt < 3:
            raise Dropped("no luck")

    Chat.between = fail_twice
    async with served(agent) as serving:
        await submit(serving)
        for attempt in (2, 3):
            await pass_over(serving, backoff(attempt))
        await heard(lambda: Chat.told)
    assert [asked.cause for asked in Chat.asked] == ["retry", "retry"]
    assert Chat.attempts == [(1, ""), (2, "half "), (3, "half ")]
    assert Chat.told[0].message is not None and Chat.told[0].message.text == "half and the rest"


async def test_a_failure_that_does_not_pass_ends_the_turn_with_its_own_text(agent: type[AIChatAgent]) -> None:
    async def fail(attempt: int) -> None:
        raise Dropped("no luck")

    agent.turn_limits, Chat.between = TurnLimits(max_attempts=2), fail
    async with served(agent) as serving:
        await submit(serving)
        await pass_over(serving, backoff(2))
        await heard(lambda: Chat.told and Chat.exhausted)
    assert [(result.status, result.error) for result in Chat.told] == [("error", "no luck")]
    assert Chat.told[0].message is not None and Chat.told[0].message.text == "half "


async def test_a_failure_that_will_not_pass_is_not_tried_again(agent: type[AIChatAgent]) -> None:
    async def fail(attempt: int) -> None:
        raise ValueError("secret")

    Chat.between = fail
    async with served(agent) as serving:
        await submit(serving)
        await heard(lambda: Chat.told)
    (result,) = Chat.told
    assert (result.status, len(Chat.attempts), Chat.asked) == ("error", 1, [])
    assert result.error is not None and "secret" not in result.error


async def test_a_silent_model_is_given_up_and_asked_again(agent: type[AIChatAgent]) -> None:
    async def hang_once(attempt: int) -> None:
        if attempt == 1:
            await asyncio.Event().wait()

    agent.turn_limits, Chat.between = TurnLimits(stall_timeout=1.0), hang_once
    async with served(agent) as serving:
        await submit(serving)
        await until(serving, has_said("half "))
        await pass_over(serving, 1_000)
        await pass_over(serving, backoff(2))
        await heard(lambda: Chat.told)
    assert [asked.cause for asked in Chat.asked] == ["stall"]
    assert Chat.told[0].message is not None and Chat.told[0].message.text == "half and the rest"


async def test_a_turn_that_was_stopped_is_not_recovered(agent: type[AIChatAgent]) -> None:
    store, Chat.between = MemoryLog(), hang
    async with served(agent, store) as serving:
        await submit(serving)
        await until(serving, has_said("half "))
        await serving.agent.abort_all_requests()
        await heard(lambda: Chat.told)
    async with served(agent, store) as serving:
        await serving.agent._runtime.wait_until_idle()
    assert ([result.status for result in Chat.told], len(Chat.attempts), Chat.asked) == (["aborted"], 1, [])
