"""Versions, forks and submissions: conversations that branch, and turns that are accepted for later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everyword.agents.think import Think
from everyword.agents.tools import tool
from everyword.core import evolve
from everyword.core.commands import Submit
from everyword.errors import Rejected, UsageError
from everyword.ids import AgentId, MessageId, RequestId
from everyword.log.memory import MemoryLog
from everyword.testing import Gate
from tests.agents.kit import AGENT, Served, served
from tests.agents.think.kit import Script, call, calls_of, think, thinker
from tests.loaded_agents import loaded_agent


def user(text: str, message_id: str) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def texts(agent: Think) -> list[str]:
    return [message.text for message in agent.messages]


async def client_asks(serving: Served, request: str, *messages: dict[str, Any]) -> None:
    """Submit as a client does, whose list decides about branches."""
    async with serving.directory.attach(AGENT) as loaded:
        await loaded.actor.ask(Submit(RequestId(request), MessageId(f"a-{request}"), messages))
    await serving.agent._runtime.wait_until_idle()


async def test_a_regenerated_answer_is_a_version_beside_the_first_and_either_can_be_shown() -> None:
    script = Script(["first"], ["second"])
    async with served(thinker(script)) as serving:
        agent = think(serving)
        await client_asks(serving, "r1", user("hi", "u1"))
        await client_asks(serving, "r2", user("hi", "u1"))
        assert texts(agent) == ["hi", "second"]
        found = await agent.versions.list("a-r2")
        assert [(each.message.text, each.is_shown) for each in found] == [("first", False), ("second", True)]
        await agent.versions.switch("a-r1")
        assert texts(agent) == ["hi", "first"]
        assert [each.is_shown for each in await agent.versions.list("a-r2")] == [True, False]


async def test_an_edited_question_keeps_its_id_so_its_versions_are_told_apart_by_themselves() -> None:
    script = Script(["to cats"], ["to dogs"], ["more of cats"])
    async with served(thinker(script)) as serving:
        agent = think(serving)
        await client_asks(serving, "r1", user("cats", "u1"))
        await client_asks(serving, "r2", user("dogs", "u1"))
        first, second = await agent.versions.list("u1")
        assert (first.message.text, second.message.text, second.is_shown) == ("cats", "dogs", True)
        with pytest.raises(UsageError, match="give the id of a version"):
            await agent.versions.switch("u1")
        await agent.versions.switch(first.id)
        assert texts(agent) == ["cats", "to cats"]
        await agent.run_turn("go on")
        assert texts(agent) == ["cats", "to cats", "go on", "more of cats"]
    assert script.said(2) == ["cats", "to cats", "go on"], "the other branch is not sent"


async def test_what_is_not_there_has_no_versions() -> None:
    async with served(thinker(Script())) as serving:
        assert await think(serving).versions.list("nothing") == []
        with pytest.raises(Rejected, match="there is no such message"):
            await think(serving).versions.switch("nothing")


async def test_a_fork_has_the_conversation_up_to_a_message_and_goes_on_by_itself() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    script = Script([call("add", a=1, b=2)], ["three"], ["never seen"], ["in the fork"])
    async with served(thinker(script, tools=[add])) as serving:
        agent = think(serving)
        answer = (await agent.run_turn([user("1+2?", "u1")])).message
        assert answer is not None
        await agent.run_turn([user("and now?", "u2")])
        fork = await loaded_agent(await agent.versions.fork(answer.id, "other"))
        assert (type(fork), fork.name) == (type(agent), "other")
        assert [message.to_dict() for message in fork.messages] == [m.to_dict() for m in agent.messages[:2]]
        assert calls_of(fork.messages[1])["c1"]["output"] == 3
        await fork.run_turn("elsewhere")
        assert texts(fork)[-1] == "in the fork" and texts(agent)[-1] == "never seen"
    assert [said for said in script.said(3) if said is not None] == ["1+2?", 3, "three", "elsewhere"]


async def test_a_fork_takes_the_place_of_nothing() -> None:
    async with served(thinker(Script(["one"], ["two"]))) as serving:
        agent = think(serving)
        await agent.run_turn([user("hi", "u1")])
        fork = await loaded_agent(await agent.versions.fork("u1", "other"))
        assert texts(fork) == ["hi"]
        for name in ("other", agent.name):
            with pytest.raises(Rejected, match="it has messages already"):
                await agent.versions.fork("u1", name)
        with pytest.raises(Rejected, match="no such message"):
            await agent.versions.fork("nothing", "third")


async def test_an_answer_is_not_forked_before_it_is_whole() -> None:
    gate, begun = Gate(), asyncio.Event()

    class Slow(Think):
        async def before_step(self, ctx: Any) -> None:
            begun.set()
            await gate.wait()

    async with served(thinker(Script(["late"]), Slow)) as serving:
        agent = think(serving)
        asking = asyncio.create_task(agent.run_turn([user("hi", "u1")], idempotency_key="r1"))
        await begun.wait()
        fork = await loaded_agent(await agent.versions.fork("u1", "other"))
        assert texts(fork) == ["hi"]
        gate.open()
        assert (await asking).status == "completed"


# -- submissions ---------------------------------------------------------------------------------------------------


async def test_a_submission_returns_at_once_and_can_be_followed_to_its_end() -> None:
    gate = Gate()

    class Slow(Think):
        async def before_turn(self, ctx: Any) -> None:
            await gate.wait()

    async with served(thinker(Script(["done"], ["done too"]), Slow)) as serving:
        agent = think(serving)
        first = await agent.submit_messages("one", idempotency_key="k1")
        second = await agent.submit_messages("two")
        assert first.id == "k1" and first.is_open and second.is_open
        assert [each.id for each in await agent.submissions.list()] == ["k1", second.id]
        gate.open()
        await agent._runtime.wait_until_idle()
        assert [each.status for each in await agent.submissions.list()] == ["completed", "completed"]
        assert texts(agent) == ["one", "done", "two", "done too"]


async def test_the_same_key_is_the_same_submission_also_after_a_restart() -> None:
    store, script = MemoryLog(), Script(["once"])
    async with served(thinker(script), store) as serving:
        agent = think(serving)
        await asyncio.gather(*(agent.submit_messages("go", idempotency_key="k") for _ in range(3)))
        await agent._runtime.wait_until_idle()
    async with served(thinker(script), store) as serving:
        agent = think(serving)
        again = await agent.submit_messages("something else", idempotency_key="k")
        assert (again.id, again.status, again.is_open) == ("k", "completed", False)
        assert (await agent.run_turn("and again", idempotency_key="k")).status == "completed"
        assert texts(agent) == ["go", "once"]
    assert len(script.asked) == 1


async def test_a_submission_outlives_the_process_that_took_it() -> None:
    store = MemoryLog()

    class Hangs(Think):
        async def before_turn(self, ctx: Any) -> None:
            await asyncio.Event().wait()

    async with served(thinker(Script(), Hangs), store) as serving:
        await think(serving).submit_messages("go", idempotency_key="k")
    async with served(thinker(Script(["after all"])), store) as serving:
        await serving.agent._runtime.wait_until_idle()
        found = await think(serving).submissions.get("k")
        assert found is not None and found.status == "completed"
        assert texts(think(serving)) == ["go", "after all"]


async def test_a_submission_can_be_cancelled_while_it_waits_and_while_it_runs() -> None:
    begun = asyncio.Event()

    class Hangs(Think):
        async def before_turn(self, ctx: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

    async with served(thinker(Script(), Hangs)) as serving:
        agent = think(serving)
        await agent.submit_messages("one", idempotency_key="runs")
        await agent.submit_messages("two", idempotency_key="waits")
        await begun.wait()
        waiting = await agent.submissions.get("waits")
        assert waiting is not None and waiting.status == "pending"
        cancelled = await agent.submissions.cancel("waits")
        assert cancelled is not None and cancelled.status == "aborted"
        await agent.submissions.cancel("runs")
        await agent._runtime.wait_until_idle()
        assert [each.status for each in await agent.submissions.list()] == ["aborted", "aborted"]
        assert await agent.submissions.get("nobody") is None


async def test_clients_turns_are_no_submissions_and_a_turn_may_submit_the_next() -> None:
    class Chained(Think):
        @tool
        async def later(self) -> str:
            return (await self.submit_messages("the rest", idempotency_key="rest")).id

    script = Script([call("later")], ["first"], ["second"])
    async with served(thinker(script, Chained)) as serving:
        await client_asks(serving, "r1", user("go", "u1"))
        assert [each.id for each in await think(serving).submissions.list()] == ["rest"]
        assert texts(think(serving)) == ["go", "first", "the rest", "second"]
        assert think(serving)._runtime.agent == AgentId("chat/ann")


async def test_a_key_is_known_for_ever_not_only_while_the_agent_remembers_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evolve, "RECENT_TURNS", 2)
    script = Script(["once"], *([["more"]] * 4))
    async with served(thinker(script)) as serving:
        agent = think(serving)
        first = await agent.run_turn("go", idempotency_key="k")
        for _ in range(4):
            await agent.run_turn("more")
        asked = len(script.asked)
        assert await agent.run_turn("go", idempotency_key="k") == first
        assert (await agent.submit_messages("go", idempotency_key="k")).status == "completed"
        assert len(script.asked) == asked
