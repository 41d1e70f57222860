"""The process dies at every append of a turn that thinks: the turn ends, no effect comes twice, no call hangs."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from everyword.agents import Submission, Think, TurnContext, responder_for
from everyword.agents.think.output import ExpectedOutput
from everyword.agents.tools import ToolContext, tool
from everyword.ids import AgentId
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, ManualClock
from tests.agents.think.kit import calls_of
from tests.runtime.facts import rounds
from tests.runtime.kit import kill_everything

AGENT = AgentId("post/ann")
APPENDS = 13
"""How many appends the undisturbed turn makes: the points to die at."""


class Envelope(BaseModel):
    told: list[str]


def _delta(name: str, call_id: str, index: int, **given: Any) -> dict[int, DeltaToolCall]:
    return {index: DeltaToolCall(name=name, json_args=json.dumps(given), tool_call_id=call_id)}


class Post(Think):
    """Sends a letter, looks out of the window, and reports what it was told of both."""

    effects: ClassVar[list[tuple[str, str]]]
    asked: ClassVar[list[list[ModelMessage]]]

    def before_turn(self, ctx: TurnContext) -> None:
        ctx.output_type = Envelope

    def get_model(self) -> Any:
        return FunctionModel(stream_function=self._answer)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        self.asked.append(messages)
        told = [part.content for message in messages for part in message.parts if part.part_kind == "tool-return"]
        # Every commit is waited for, so that every chunk is a point to die at.
        await self._runtime.submissions.all()
        if len(told) < 2:
            yield "Let me see. "
            await self._runtime.submissions.all()
            yield _delta("send", f"s{len(messages)}", 1)
            yield _delta("look", f"l{len(messages)}", 2)
        else:
            yield _delta("final_result", f"f{len(messages)}", 1, told=[str(each) for each in told])

    @tool
    async def send(self, context: ToolContext) -> str:
        self.effects.append(("send", context.idempotency_key))
        return "sent"

    @tool(idempotent=True)
    async def look(self, context: ToolContext) -> str:
        self.effects.append(("look", context.idempotency_key))
        return "rain"


@pytest.fixture(autouse=True)
def fresh() -> None:
    Post.effects, Post.asked = [], []


async def _live(log: CrashingLog, clock: ManualClock) -> tuple[Submission | None, list[UIMessage]]:
    directory: Directory
    directory = Directory(
        log,
        lambda agent: responder_for(Post, AgentRuntime(directory, agent)),
        clock=clock,
        settings=Settings(grace=0.0),
    )
    async with directory:
        post = Post(AgentRuntime(directory, AGENT))
        await post.submit_messages("write to her", idempotency_key="k")
        await post._runtime.wait_until_idle()
        return await post.submissions.get("k"), post.messages


async def _dies_and_lives(at: int, when: Literal["before", "after"]) -> tuple[Submission | None, list[UIMessage]]:
    store, clock = MemoryLog(), ManualClock()
    log = CrashingLog(store, at, when)
    life = asyncio.create_task(_live(log, clock))
    death = asyncio.create_task(log.crashed.wait())
    await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
    assert not life.done(), f"append {at} was never reached"
    await rounds()
    await kill_everything()
    await store.aclose()
    return await _live(CrashingLog(store), clock)


async def test_the_turn_has_so_many_points_to_die_at() -> None:
    log = CrashingLog(MemoryLog())
    submission, (_, answer) = await _live(log, ManualClock())
    assert submission is not None and submission.status == "completed"
    assert [part["input"] for part in calls_of(answer).values()][-1] == {"told": ["sent", "rain"]}
    assert log.appends == APPENDS


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, APPENDS + 1))
async def test_dying_at_any_append_ends_the_turn_with_an_object_and_repeats_no_effect(
    at: int, when: Literal["before", "after"]
) -> None:
    submission, messages = await _dies_and_lives(at, when)
    assert submission is not None and (submission.status, submission.error) == ("completed", None)
    assert [message.role for message in messages] == ["user", "assistant"]
    answer = messages[-1]
    assert ExpectedOutput(Envelope).is_given(answer)
    done = Counter(Post.effects)
    assert all(count == 1 for (name, _), count in done.items() if name == "send"), "an effect came twice"
    for part in calls_of(answer).values():
        assert part["state"] in ("output-available", "output-error") and not part.get("preliminary"), part
    for messages_sent in Post.asked:
        check_answered(messages_sent)


def check_answered(messages: list[ModelMessage]) -> None:
    """Check that the model sees one result for every call, right behind it."""
    for position, message in enumerate(messages):
        calls = [part.tool_call_id for part in message.parts if part.part_kind == "tool-call"]
        after = messages[position + 1].parts if calls and position + 1 < len(messages) else []
        results = [part.tool_call_id for part in after if part.part_kind == "tool-return"]
        assert sorted(calls) == sorted(results), messages
