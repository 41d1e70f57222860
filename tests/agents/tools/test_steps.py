"""Answers with tools: asked, run, asked again; approved, denied, interrupted, and never run twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword.agents import AIChatAgent
from everyword.agents.tools import ToolContext, tool
from everyword.agents.turn import Turn
from everyword.core.commands import AnswerToolCall
from everyword.errors import ChatError
from everyword.ids import CallId, RequestId
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from tests.agents.kit import AGENT, Served, served

QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}


def call(name: str, call_id: str = "c1", **given: Any) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": given}


def step(*chunks: Any) -> list[Any]:
    return [{"type": "start-step"}, *chunks, {"type": "finish-step"}, {"type": "finish", "finishReason": "stop"}]


class Clerk(AIChatAgent):
    """Answers from a script: one list of chunks per step."""

    script: ClassVar[list[list[Any]]] = []
    told: ClassVar[list[list[UIMessage]]] = []
    effects: ClassVar[list[Any]] = []

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async for asked in turn.steps(max_steps=4):
            type(self).told.append(asked.messages)
            async for chunk in asked.run(type(self).script.pop(0)):
                yield chunk

    @tool
    async def find(self, number: str, context: ToolContext) -> dict[str, Any]:
        """Find an order."""
        self.effects.append((number, context.idempotency_key))
        return {"number": number}

    @tool(needs_approval=lambda amount: amount > 100)
    def refund(self, amount: float) -> str:
        self.effects.append(amount)
        return "refunded"

    @tool
    async def broken(self) -> None:
        raise RuntimeError("secret of the house")

    @tool
    async def nothing(self) -> None:
        return None

    @tool(client=True)
    async def where(self) -> str: ...


@pytest.fixture(autouse=True)
def fresh() -> None:
    Clerk.script, Clerk.told, Clerk.effects = [], [], []


async def ask(serving: Served) -> UIMessage:
    result = await serving.agent.save_messages([QUESTION])
    assert result.status == "completed" and result.message is not None
    return result.message


def calls_of(message: UIMessage) -> dict[str, Any]:
    return {part["toolCallId"]: part for part in message.parts if part["type"].startswith("tool-")}


async def answer(serving: Served, call_id: str, given: Any, *, is_last: bool = True) -> None:
    async with serving.directory.attach(AGENT) as loaded:
        await loaded.actor.ask(AnswerToolCall(CallId(call_id), given, RequestId(f"go on {call_id}")))
    serving.clock.advance(1)
    if is_last:
        await serving.agent._runtime.wait_until_idle()


def kinds(store: MemoryLog) -> list[str]:
    return [stored.kind for stored in store._logs[AGENT].events]


async def test_a_call_is_run_and_its_result_is_put_before_the_model() -> None:
    Clerk.script = [step(call("find", number="7")), step("found it")]
    store = MemoryLog()
    async with served(Clerk, store) as serving:
        message = await ask(serving)
    assert calls_of(message)["c1"]["output"] == {"number": "7"}
    assert message.text == "found it"
    assert [part["state"] for part in calls_of(Clerk.told[1][-1]).values()] == ["output-available"]
    assert len(Clerk.effects) == 1 and Clerk.effects[0][1].endswith("/c1")
    assert sum(part["type"] == "step-start" for part in message.parts) == 2


async def test_a_call_is_in_the_log_before_its_effect_and_its_result_after_it() -> None:
    Clerk.script = [step(call("find", number="7")), step("ok")]
    store = MemoryLog()
    seen: list[str] = []

    async with served(Clerk, store) as serving:
        Clerk.effects = type("Watch", (list,), {"append": lambda self, item: seen.extend(kinds(store))})()
        await ask(serving)
    assert seen.count("call.started") == 1
    assert seen[-1] == "call.started"


async def test_several_calls_of_a_step_run_beside_each_other_and_all_are_settled_before_the_next() -> None:
    Clerk.script = [
        step(call("find", "c1", number="1"), call("nothing", "c2"), call("find", "c3", number="3")),
        step("ok"),
    ]
    async with served(Clerk) as serving:
        calls = calls_of(await ask(serving))
    assert {name: part.get("output") for name, part in calls.items()} == {
        "c1": {"number": "1"},
        "c2": None,
        "c3": {"number": "3"},
    }


async def test_the_text_that_a_tool_raised_reaches_neither_model_nor_page() -> None:
    Clerk.script = [step(call("broken")), step("sorry")]
    async with served(Clerk) as serving:
        message = await ask(serving)
    assert calls_of(message)["c1"]["errorText"] == "The tool broken failed."
    told = calls_of(Clerk.told[1][-1])["c1"]["errorText"]
    assert told == "The tool broken failed. Its error was logged on the server."
    assert message.text == "sorry"


async def test_an_unknown_tool_and_bad_input_are_errors_that_the_model_can_mend() -> None:
    Clerk.script = [step(call("nobody", "c1"), call("find", "c2", wrong=1)), step("ok")]
    async with served(Clerk) as serving:
        await ask(serving)
    told = calls_of(Clerk.told[1][-1])
    assert told["c1"]["errorText"] == "There is no tool 'nobody'."
    assert "number: is required" in told["c2"]["errorText"]
    assert Clerk.effects == []


async def test_a_call_that_needs_approval_waits_and_runs_once_it_is_given() -> None:
    Clerk.script = [step(call("refund", amount=500)), step("done")]
    async with served(Clerk) as serving:
        message = await ask(serving)
        assert calls_of(message)["c1"]["state"] == "approval-requested"
        assert Clerk.effects == [] and await serving.agent.has_pending_interaction()
        await answer(serving, "c1", ApprovalAnswer(True))
        assert Clerk.effects == [500.0]
        last = serving.agent.messages[-1]
    assert calls_of(last)["c1"]["output"] == "refunded"
    assert last.text == "done"
    assert calls_of(Clerk.told[1][-1])["c1"]["state"] == "output-available"


async def test_a_denied_call_is_not_run_and_the_model_is_asked_again() -> None:
    Clerk.script = [step(call("refund", amount=500)), step("as you wish")]
    async with served(Clerk) as serving:
        await ask(serving)
        await answer(serving, "c1", ApprovalAnswer(False, "too much"))
        last = serving.agent.messages[-1]
    assert Clerk.effects == []
    assert calls_of(last)["c1"]["state"] == "output-denied"
    assert last.text == "as you wish"


async def test_a_small_refund_needs_no_approval() -> None:
    Clerk.script = [step(call("refund", amount=5)), step("done")]
    async with served(Clerk) as serving:
        message = await ask(serving)
    assert Clerk.effects == [5.0] and calls_of(message)["c1"]["output"] == "refunded"


async def test_a_client_tool_is_left_to_the_page_and_a_forged_result_of_ours_is_refused() -> None:
    Clerk.script = [step(call("where", "c1"), call("refund", "c2", amount=500)), step("done")]
    async with served(Clerk) as serving:
        await ask(serving)
        await answer(serving, "c2", OutputAnswer("forged"), is_last=False)
        assert calls_of(serving.agent.messages[-1])["c2"]["state"] == "approval-requested"
        await answer(serving, "c1", OutputAnswer("Oslo"), is_last=False)
        assert calls_of(serving.agent.messages[-1])["c1"]["output"] == "Oslo"
        await answer(serving, "c2", ApprovalAnswer(True))
        last = serving.agent.messages[-1]
    assert Clerk.effects == [500.0]
    assert calls_of(last)["c2"]["output"] == "refunded" and last.text == "done"


async def test_the_loop_ends_at_its_limit() -> None:
    Clerk.script = [step(call("find", f"c{n}", number=str(n))) for n in range(9)]
    async with served(Clerk) as serving:
        message = await ask(serving)
    assert len(calls_of(message)) == 4


class Hand(AIChatAgent):
    """Calls its tools by hand."""

    effects: ClassVar[list[float]] = []
    fails: ClassVar[bool] = False

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        answer = await turn.call_tool("double", n=4)
        more = await turn.call_tool("pay", amount=answer)
        yield f"paid {more}"

    @tool
    async def double(self, n: int) -> int:
        if self.fails:
            raise ChatError("no numbers today")
        self.effects.append(n)
        return n * 2

    @tool(needs_approval=True)
    async def pay(self, amount: int) -> int:
        self.effects.append(amount)
        return amount


async def test_tools_called_by_hand_are_recorded_and_not_run_again_when_the_turn_goes_on() -> None:
    Hand.effects, Hand.fails = [], False
    async with served(Hand) as serving:
        message = await ask(serving)
        calls = calls_of(message)
        assert [part["state"] for part in calls.values()] == ["output-available", "approval-requested"]
        await answer(serving, next(reversed(calls)), ApprovalAnswer(True))
        last = serving.agent.messages[-1]
    assert Hand.effects == [4, 8]
    assert last.text == "paid 8"


async def test_a_tool_called_by_hand_that_fails_ends_the_turn_unless_it_is_caught() -> None:
    Hand.effects, Hand.fails = [], True
    async with served(Hand) as serving:
        result = await serving.agent.save_messages([QUESTION])
    assert (result.status, result.error) == ("error", "no numbers today")


class Leaving(AIChatAgent):
    """Turns away from a step in the middle, while a tool is at work."""

    how: ClassVar[str] = "raises"
    ended: ClassVar[list[str]] = []
    at_work: ClassVar[asyncio.Event]

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async for asked in turn.steps():
            async for chunk in asked.run(self.model()):
                if chunk == "enough":
                    await self.at_work.wait()
                    match self.how:
                        case "raises":
                            raise ChatError("gave up")
                        case "returns":
                            return
                        case "is stopped":
                            await asyncio.Event().wait()
                yield chunk

    async def model(self) -> AsyncGenerator[Any, None]:
        try:
            for each in step(call("work"), "enough"):
                yield each
        finally:
            self.ended.append("model")
            if self.how == "returns":
                raise RuntimeError("cannot be closed")

    @tool
    async def work(self) -> None:
        self.at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(200):
                await asyncio.sleep(0)
            self.ended.append("tool")


@pytest.mark.parametrize("how", ["raises", "returns", "is stopped"])
async def test_leaving_a_step_in_the_middle_ends_it_and_its_calls(how: str, caplog: pytest.LogCaptureFixture) -> None:
    Leaving.how, Leaving.ended, Leaving.at_work = how, [], asyncio.Event()
    async with served(Leaving) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([QUESTION]))
        if how == "is stopped":
            await Leaving.at_work.wait()
            [attempt] = [task for task in asyncio.all_tasks() if task.get_name().startswith("turn ")]
            await serving.agent.abort_all_requests()
            await asyncio.wait([attempt])
        status = (await asking).status
        assert Leaving.ended == ["model", "tool"]
    assert status == {"raises": "error", "returns": "completed", "is stopped": "aborted"}[how]
    errors = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert [("could not be closed" in each) for each in errors] == ([True] if how == "returns" else [])
