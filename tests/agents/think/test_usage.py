"""What a turn took is counted step by step, and recorded however the turn ends."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from everyword.agents import StepContext, Think
from everyword.agents.tools import tool
from everyword.core.commands import Submit
from everyword.ids import MessageId, RequestId
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import ApprovalAnswer
from everyword.testing import CrashingLog
from tests.agents.kit import AGENT, served
from tests.agents.think.kit import Script, answer, call, think, thinker
from tests.runtime.kit import kill_everything


class Adder(Think):
    """Notes what its steps took, and may be held in its tool."""

    seen: list[tuple[int, str | None, dict[str, int], dict[str, int]]]
    hold: asyncio.Event

    def on_step_finish(self, ctx: StepContext) -> None:
        self.seen.append((ctx.number, ctx.finish_reason, ctx.step_usage, ctx.usage))

    @tool
    async def add(self, a: int, b: int) -> int:
        return a + b

    @tool
    async def wait(self) -> None:
        await self.hold.wait()

    @tool(needs_approval=True)
    async def pay(self) -> str:
        return "paid"


@pytest.fixture(autouse=True)
def fresh() -> None:
    Adder.seen, Adder.hold = [], asyncio.Event()


def total(steps: list[dict[str, Any]]) -> dict[str, int]:
    names = {name for step in steps for name in step["usage"]}
    return {name: sum(step["usage"].get(name, 0) for step in steps) for name in names}


async def recorded(store: MemoryLog, request: str) -> Any:
    """Return what the log has of a turn's usage."""
    row = await store.find_turn(AGENT, RequestId(request))
    assert row is not None
    return msgspec.json.decode(row.usage) if row.usage is not None else None


async def test_every_step_says_what_it_took_and_the_turn_what_they_took_together() -> None:
    store, script = MemoryLog(), Script(["Well. ", call("add", a=1, b=2)], ["It is three."])
    async with served(thinker(script, Adder), store) as serving:
        message = (await think(serving).run_turn("1+2?", idempotency_key="r1")).message
        assert message is not None
        steps, usage = message.metadata["steps"], message.metadata["usage"]
        assert usage == total(steps) == await recorded(store, "r1")
    assert len(steps) == 2 and all(step["usage"]["outputTokens"] > 0 for step in steps)
    assert message.metadata["finishReason"] == "stop" == steps[-1]["finishReason"]
    (_, _, first, so_far), (_, reason, second, all_of_it) = Adder.seen
    assert (first, first, second) == (so_far, steps[0]["usage"], steps[1]["usage"])
    assert (all_of_it, reason) == (usage, "stop")


async def test_a_turn_that_is_stopped_has_what_its_steps_took_until_then() -> None:
    store, script = MemoryLog(), Script(["One. ", call("add", a=1, b=2)], [call("wait", "c2")])
    async with served(thinker(script, Adder), store) as serving:
        agent = think(serving)
        asking = asyncio.create_task(agent.run_turn("go", idempotency_key="r1"))
        while len(Adder.seen) < 1 or len(script.asked) < 2:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        await agent.abort_all_requests()
        result = await asking
        assert result.status == "aborted" and result.message is not None
        usage = await recorded(store, "r1")
    assert usage is not None and usage["outputTokens"] >= Adder.seen[0][2]["outputTokens"] > 0
    assert result.message.metadata["usage"] == usage


async def test_a_message_that_goes_on_after_an_answer_keeps_the_steps_that_it_had() -> None:
    store, script = MemoryLog(), Script(["May I? ", call("pay")], ["Thanks."])
    async with served(thinker(script, Adder), store) as serving:
        asked = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "pay"}]}
        async with serving.directory.attach(AGENT) as loaded:
            await loaded.actor.ask(Submit(RequestId("r1"), MessageId("a1"), [asked]))
        await think(serving)._runtime.wait_until_idle()
        before = think(serving).messages[-1].metadata["steps"]
        await answer(serving, "c1", ApprovalAnswer(True))
        message: UIMessage = think(serving).messages[-1]
        assert (await recorded(store, "r1")) == before[0]["usage"]
        assert (await recorded(store, "go on c1")) == message.metadata["steps"][1]["usage"]
    assert message.metadata["steps"][:1] == before and len(message.metadata["steps"]) == 2
    assert [step["finishReason"] for step in message.metadata["steps"]] == ["stop", "stop"]


async def say_it(script: Script, log: CrashingLog) -> None:
    async with served(thinker(script), log) as serving:
        await think(serving).run_turn("say it", idempotency_key="r1")


async def test_a_process_that_died_behind_the_last_word_asks_nothing_again() -> None:
    whole = CrashingLog(MemoryLog())
    await say_it(Script(["All of it."]), whole)
    asked = list[tuple[int, str]]()
    for at in range(2, whole.appends + 1):
        store, script = MemoryLog(), Script(["All of it."], [" Again."])
        log = CrashingLog(store, at, "after")
        life = asyncio.create_task(say_it(script, log))
        await log.crashed.wait()
        await kill_everything()
        assert life.cancelled()
        await store.aclose()
        async with served(thinker(script), store) as serving:
            await think(serving)._runtime.wait_until_idle()
            asked.append((len(script.asked), think(serving).messages[-1].text))
    assert {times for times, _ in asked} == {1, 2}
    assert asked[-2:] == [(1, "All of it.")] * 2, "the last commits are the step's count with the finish, and the end"
