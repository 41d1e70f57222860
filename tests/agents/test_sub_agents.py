"""Agents below agents: their own logs, found by their path, known again after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from everyword import Agent, AIChatAgent, Everyword, UIMessage
from everyword.agents.sub_agent_classes import SubAgentAddress
from everyword.errors import UsageError
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.testing import Gate
from tests.loaded_agents import runtime_of

GATES: dict[str, Gate] = {}


class Worker(AIChatAgent):
    """Says what it is told, and by whom."""

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield f"{self.name}: {self.messages[-1].text}"
        if self.name in GATES:
            await GATES[self.name].wait()
            yield " more"


class Helper(Agent):
    initial_state: ClassVar[Any] = {"n": 0}


class Boss(AIChatAgent):
    sub_agent_classes = (Helper,)

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        worker = await self.sub_agent(Worker, "w")
        result = await worker.save_messages([user("q", f"from {self.name}")])
        assert result.message is not None
        yield f"[{result.message.text}] {len(self.messages)} here, {len(await worker.get_messages())} there"


def user(message_id: str, text: str) -> UIMessage:
    return UIMessage(message_id, "user", [{"type": "text", "text": text}])


@asynccontextmanager
async def running(store: LogStore | None = None) -> AsyncIterator[Everyword]:
    app = Everyword([Boss], store=store if store is not None else MemoryLog())
    app.grace = 0.0
    async with app:
        yield app


async def test_a_turn_asks_a_sub_agent_and_each_has_its_own_conversation() -> None:
    async with running() as app:
        boss = app.get(Boss, "ann")
        result = await boss.save_messages([user("u", "go")])
        assert result.message is not None
        assert result.message.text == "[w: from ann] 1 here, 2 there"
        assert [message.text for message in await boss.get_messages()] == ["go", result.message.text]


async def test_children_of_the_same_name_below_different_parents_are_different() -> None:
    """Trap 208."""
    async with running() as app:
        ann, bob = app.get(Boss, "ann"), app.get(Boss, "bob")
        await (await ann.sub_agent(Helper, "h")).set_state({"n": 1})
        await (await bob.sub_agent(Helper, "h")).set_state({"n": 2})
        await (await (await ann.sub_agent(Worker, "h")).sub_agent(Helper, "h")).set_state({"n": 3})
        assert await (await ann.sub_agent(Helper, "h")).get_state() == {"n": 1}
        assert await (await bob.sub_agent(Helper, "h")).get_state() == {"n": 2}
        assert await (await (await ann.sub_agent(Worker, "h")).sub_agent(Helper, "h")).get_state() == {"n": 3}


async def test_sub_agents_are_listed_from_when_they_are_made_and_only_ones_own() -> None:
    async with running() as app:
        ann, bob = app.get(Boss, "ann"), app.get(Boss, "bob")
        assert await ann.sub_agents.list() == []
        assert not await ann.sub_agents.exists(Worker, "b/ö"), "asking makes nothing"
        worker = await ann.sub_agent(Worker, "b/ö")
        await ann.sub_agent(Helper, "a")
        await worker.sub_agent(Helper, "below")
        await bob.sub_agent(Helper, "bobs")
        assert await ann.sub_agents.list() == [SubAgentAddress(Worker, "b/ö"), SubAgentAddress(Helper, "a")]
        assert await ann.sub_agents.list(Helper) == [SubAgentAddress(Helper, "a")]
        assert await ann.sub_agents.exists(Worker, "b/ö")
        assert (worker.name, await worker.sub_agents.list()) == ("b/ö", [SubAgentAddress(Helper, "below")])


async def test_asking_for_a_sub_agent_again_writes_nothing() -> None:
    store = MemoryLog()
    async with running(store) as app:
        boss = app.get(Boss, "ann")
        for _ in range(3):
            await boss.sub_agent(Helper, "h")
        helper = (await boss.sub_agent(Helper, "h"))._agent
        assert [event.kind for event in await store.read(helper, 0)] == ["agent.created"]  # type: ignore[arg-type]


async def test_aborting_a_sub_agent_stops_its_turns_and_keeps_what_it_said() -> None:
    GATES["slow"] = Gate()
    try:
        async with running() as app:
            boss = app.get(Boss, "ann")
            slow = await boss.sub_agent(Worker, "slow")
            await boss.sub_agents.abort(Worker, "nobody")
            assert not await boss.sub_agents.exists(Worker, "nobody")
            runtime = runtime_of(slow)
            await runtime.submissions.submit([user("q", "hi").to_dict()], request="r")  # type: ignore[arg-type]
            await GATES["slow"].reached.wait()
            await boss.sub_agents.abort(Worker, "slow")
            await runtime.wait_until_idle()
            record = await runtime.submissions.find("r")  # type: ignore[arg-type]
            assert record is not None and record.status == "aborted"
            assert (await slow.get_messages())[-1].text == "slow: hi"
    finally:
        GATES.clear()


async def test_a_sub_agents_open_turn_is_finished_by_the_next_process_without_its_parent() -> None:
    store = MemoryLog()
    GATES["w"] = Gate()
    async with running(store) as app:
        worker = await app.get(Boss, "ann").sub_agent(Worker, "w")
        await runtime_of(worker).submissions.submit([user("q", "hi").to_dict()], request="r")  # type: ignore[arg-type]
        await GATES["w"].reached.wait()
    GATES.clear()
    async with running(store) as app:
        worker = await app.get(Boss, "ann").sub_agent(Worker, "w")
        await runtime_of(worker).wait_until_idle()
        record = await runtime_of(worker).submissions.find("r")  # type: ignore[arg-type]
        assert record is not None and record.status == "completed"


async def test_deleting_a_sub_agent_deletes_all_that_it_stored_and_all_below_it() -> None:
    store = MemoryLog()
    async with running(store) as app:
        boss = app.get(Boss, "ann")
        worker = await boss.sub_agent(Worker, "w")
        await worker.save_messages([user("q", "hi")])
        below = await worker.sub_agent(Helper, "below")
        await boss.sub_agent(Worker, "w2")
        assert await boss.sub_agents.delete(Worker, "w")
        assert not await boss.sub_agents.delete(Worker, "w")
        assert await boss.sub_agents.list() == [SubAgentAddress(Worker, "w2")]
        for gone in (worker, below):
            assert await store.read(gone._agent, 0) == []  # type: ignore[arg-type]
        assert await (await boss.sub_agent(Worker, "w")).get_messages() == []


async def test_a_fork_of_a_sub_agent_is_its_sibling() -> None:
    async with running() as app:
        boss = app.get(Boss, "ann")
        worker = await boss.sub_agent(Worker, "w")
        await worker.save_messages([user("q", "hi")])
        fork = await worker.versions.fork("q", "other")
        assert [message.text for message in await fork.get_messages()] == ["hi"]
        assert await boss.sub_agents.list() == [SubAgentAddress(Worker, "w"), SubAgentAddress(Worker, "other")]


async def test_names_and_classes_that_would_be_mistaken_for_paths_are_refused() -> None:
    class Sub(Agent):
        pass

    with pytest.raises(UsageError, match="Rename"):
        Everyword([Sub])
    async with running() as app:
        boss = app.get(Boss, "ann")
        with pytest.raises(UsageError, match="Rename"):
            await boss.sub_agent(Sub, "x")
        for name in ("", "a\0b"):
            with pytest.raises(UsageError, match="without NUL"):
                await boss.sub_agent(Helper, name)
        with pytest.raises(UsageError, match="sub_agent"):
            app.get(Boss, "ann/sub/helper/h")
