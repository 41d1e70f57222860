"""A question that comes while the agent works is read before the model's next step; over both base classes."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword.agents import AIChatAgent, ToolContext, tool
from everyword.agents.tools.steps import is_final
from everyword.core.commands import Policy, Submit
from everyword.errors import UsageError
from everyword.ids import MessageId, RequestId
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import tool_parts
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.testing import CrashingLog, ManualClock
from tests.agents.bases import BASES, Asked, answering
from tests.agents.kit import AGENT, Served, served
from tests.runtime.facts import rounds
from tests.runtime.kit import kill_everything

pytestmark = pytest.mark.parametrize("base", BASES)


class Worker:
    """Looks three things up, one per step, then says what it was told."""

    message_concurrency = "steer"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.told: list[list[str]] = []
        self.working, self.go_on = asyncio.Event(), asyncio.Event()

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        said = [f"{m.role}: {m.text}" for m in asked.messages]
        self.told.append(said)
        calls = sum(part["type"] == "tool-look" for message in asked.messages for part in message.parts)
        if calls < 3:
            yield {
                "type": "tool-input-available",
                "toolCallId": f"c{calls + 1}",
                "toolName": "look",
                "input": {"number": calls + 1},
            }
        else:
            yield f"answered {asked.question}"

    @tool
    async def look(self, number: int) -> str:
        self.working.set()
        await self.go_on.wait()
        return f"found {number}"


def question(number: int) -> dict[str, Any]:
    return {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": f"question {number}"}]}


async def ask(serving: Served, number: int, **more: Any) -> None:
    policy = Policy("steer")
    async with serving.directory.attach(AGENT) as loaded:
        request, message = RequestId(f"r{number}"), MessageId(f"a{number}")
        await loaded.actor.ask(Submit(request, message, [question(number)], policy=policy, **more))


async def worked(serving: Served, *, interrupted_by: int) -> list[tuple[str, str]]:
    """Ask once, ask again while the first tool runs, let it run; return what is stored in the end."""
    agent: Any = serving.agent
    await ask(serving, 1)
    await agent.working.wait()
    for number in range(2, 2 + interrupted_by):
        await ask(serving, number)
    agent.go_on.set()
    await agent._runtime.wait_until_idle()
    return [(message.role, message.text) for message in agent._runtime.messages()]


def endings(store: MemoryLog) -> list[str]:
    return [stored.body.decode() for stored in store._logs[AGENT].events if stored.kind == "turn.ended"]


async def test_the_next_step_reads_the_question_behind_the_results_that_are_there(base: str) -> None:
    async with served(answering(base, Worker)) as serving:
        stored = await worked(serving, interrupted_by=1)
        agent: Any = serving.agent
    assert agent.told[0] == ["user: question 1"]
    # What was found is kept, the question stands behind it, and the answer to both follows.
    assert agent.told[1] == ["user: question 1", "assistant: ", "user: question 2"]
    assert len(agent.told) == 4
    assert stored == [
        ("user", "question 1"),
        ("assistant", ""),
        ("user", "question 2"),
        ("assistant", "answered question 2"),
    ]


async def test_the_turn_that_made_way_is_completed_and_says_why(base: str) -> None:
    store = MemoryLog()
    async with served(answering(base, Worker), store) as serving:
        await worked(serving, interrupted_by=1)
        outcomes = [serving.agent._runtime.messages()[1].parts[-1].get("output")]
    first, second = endings(store)
    assert '"outcome":"completed"' in first and '"reason":"steered"' in first
    assert '"outcome":"completed"' in second and "steered" not in second
    assert outcomes == ["found 1"]


async def test_several_questions_are_read_one_step_after_the_other(base: str) -> None:
    async with served(answering(base, Worker)) as serving:
        stored = await worked(serving, interrupted_by=3)
    assert [text for role, text in stored if role == "user"] == [f"question {n}" for n in (1, 2, 3, 4)]
    assert stored[-1] == ("assistant", "answered question 4")


async def test_a_question_that_comes_too_late_for_a_step_is_simply_answered(base: str) -> None:
    class Brief(Worker):
        async def reply(self, asked: Asked) -> AsyncIterator[Any]:
            self.working.set()
            await self.go_on.wait()
            yield f"answered {asked.question}"

    async with served(answering(base, Brief)) as serving:
        stored = await worked(serving, interrupted_by=1)
    assert stored == [
        ("user", "question 1"),
        ("assistant", "answered question 1"),
        ("user", "question 2"),
        ("assistant", "answered question 2"),
    ]


async def test_a_turn_that_our_own_code_waits_for_is_not_cut_short(base: str) -> None:
    async with served(answering(base, Worker)) as serving:
        agent: Any = serving.agent
        waiting = asyncio.create_task(agent.save_messages([question(1)]))
        await agent.working.wait()
        await ask(serving, 2)
        agent.go_on.set()
        result = await waiting
        await agent._runtime.wait_until_idle()
    assert result.message.text == "answered question 1"


async def test_other_policies_let_a_turn_finish_its_steps(base: str) -> None:
    class Patient(Worker):
        message_concurrency = "queue"

    async with served(answering(base, Patient)) as serving:
        stored = await worked(serving, interrupted_by=1)
    assert stored[1] == ("assistant", "answered question 1")


async def _live(cls: type[AIChatAgent], log: CrashingLog) -> list[UIMessage]:
    """Ask, and ask again while it works; a client that finds the server again sends both again."""
    serving = Served(cls, log, ManualClock())
    async with serving.directory:
        port = AgentRuntime(serving.directory, AGENT)
        await ask(serving, 1)
        idle = asyncio.create_task(port.wait_until_idle())
        work = asyncio.create_task(serving.agent.working.wait())  # type: ignore[attr-defined]
        await asyncio.wait([idle, work], return_when=asyncio.FIRST_COMPLETED)
        await ask(serving, 2)
        serving.agent.go_on.set()  # type: ignore[attr-defined]
        await idle
        await port.wait_until_idle()
        work.cancel()
        return list(port.messages())


async def test_dying_at_any_append_loses_neither_question_nor_result(base: str) -> None:
    class Effective(Worker):
        effects: ClassVar[Counter[str]]

        @tool
        async def look(self, number: int, context: ToolContext) -> str:
            self.effects[context.idempotency_key] += 1
            return await Worker.look.function(self, number)

    undisturbed = CrashingLog(MemoryLog())
    Effective.effects = Counter()
    await _live(answering(base, Effective), undisturbed)
    assert undisturbed.appends > 10
    for at, when in itertools.product(range(1, undisturbed.appends + 1), ("before", "after")):
        Effective.effects = Counter()
        store = MemoryLog()
        log = CrashingLog(store, at, when)
        cls = answering(base, Effective)
        life = asyncio.create_task(_live(cls, log))
        death = asyncio.create_task(log.crashed.wait())
        await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
        await rounds()
        await kill_everything()
        await store.aclose()
        messages = await _live(cls, CrashingLog(store))
        assert [message.role for message in messages] == ["user", "assistant", "user", "assistant"], (at, when)
        # An attempt that died while it spoke is followed by one that says the same once more.
        assert "question 2" in messages[-1].text, (at, when)
        assert not messages[-1].text.replace("answered question 2", ""), (at, when)
        calls = [part for message in messages for part in tool_parts(message)]
        assert all(is_final(part) for part in calls) and len(calls) == 3, (at, when)
        assert max(Effective.effects.values(), default=1) == 1, (at, when)


async def test_the_class_says_which_words_it_knows(base: str) -> None:
    class Odd(Worker):
        message_concurrency = "sideways"

    with pytest.raises(UsageError, match="'steer' or Debounce"):
        async with served(answering(base, Odd)):
            pass
