"""Destroying agents: all of it or nothing, from outside and from within, whatever runs and whatever crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from everyword.agents import AIChatAgent
from everyword.agents.agent import Agent
from everyword.agents.chat_responder import responder_for
from everyword.errors import AgentGone, LogUnavailable
from everyword.ids import AgentId, Epoch, Seq
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, ManualClock
from tests.runtime.kit import kill_everything
from tests.timeouts import PATIENCE

AGENT, CHILD = AgentId("chat/ann"), AgentId("chat/ann/sub/chat/kid")


class Chat(AIChatAgent):
    """Answers when it is let, and notes what it is told."""

    heard: ClassVar[list[Any]] = []
    gate: ClassVar[asyncio.Event] = asyncio.Event()
    destroys_at_start: ClassVar[bool] = False

    async def on_start(self) -> None:
        self.heard.append(f"start {self.name}")
        if type(self).destroys_at_start:
            type(self).destroys_at_start = False
            await self.destroy()

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "so far"
        if "destroy" in self.messages[-1].text:
            await self.destroy()
            self.heard.append("after")
            yield "a word too many"
        try:
            await type(self).gate.wait()
        finally:
            self.heard.append("turn over")
        yield " and done"

    async def hang(self, payload: Any) -> None:
        self.heard.append("job")
        try:
            await asyncio.Event().wait()
        finally:
            await self.note("late")

    async def note(self, payload: Any) -> None:
        try:
            await self.set_state({"noted": payload})
        except AgentGone:
            self.heard.append("gone")

    async def end_it(self, payload: Any) -> None:
        await self.destroy()
        self.heard.append("ended it")


@pytest.fixture(autouse=True)
def fresh() -> None:
    Chat.heard, Chat.gate, Chat.destroys_at_start = [], asyncio.Event(), False


class World:
    def __init__(self, store: LogStore) -> None:
        self.forgotten: list[AgentId] = []
        self.clock = ManualClock()
        self.directory = Directory(
            store,
            lambda agent: responder_for(Chat, AgentRuntime(self.directory, agent)),
            clock=self.clock,
            settings=Settings(grace=0.0),
            forget=self.forget,
        )
        self.agent, self.child = Chat(AgentRuntime(self.directory, AGENT)), Chat(AgentRuntime(self.directory, CHILD))

    async def forget(self, agent: AgentId) -> None:
        self.forgotten.append(agent)


@asynccontextmanager
async def world(store: LogStore) -> AsyncIterator[World]:
    here = World(store)
    async with here.directory:
        yield here


def question(text: str = "hi", name: str = "u1") -> dict[str, Any]:
    return {"id": name, "role": "user", "parts": [{"type": "text", "text": text}]}


async def until(fact: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def quiet(rounds: int = 60) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def is_empty(store: MemoryLog, *agents: AgentId) -> bool:
    found = [(await store.read(agent, Seq(0)), await store.kept(agent), await store.turns(agent)) for agent in agents]
    return all(each == ([], [], []) for each in found) and await store.next_wake() is None


async def live(here: World) -> None:
    """Give an agent and its child something of everything, running and waiting."""
    for agent in (here.agent, here.child):
        await agent.set_state({"count": 1})
        await agent.queue("hang")
        await agent.schedule(60, "note", "scheduled")
        await agent.fibers.start("forever", lambda: asyncio.Event().wait())
        await agent._runtime.submissions.submit([question()], request="r1")  # type: ignore[arg-type]
    await until(lambda: Chat.heard.count("job") == 2)


async def test_everything_that_an_agent_has_and_runs_is_gone_and_so_are_those_below_it() -> None:
    """P-57."""
    store = MemoryLog()
    async with world(store) as here:
        await live(here)
        await here.agent.destroy()
        assert await is_empty(store, AGENT, CHILD)
        await quiet()
        assert Chat.heard.count("turn over") == Chat.heard.count("gone") == 2
        assert here.forgotten == [AGENT, CHILD]
        here.clock.advance(3_600)
        await quiet()
        assert await is_empty(store, AGENT, CHILD)
        assert len(here.directory) == 0


async def test_the_name_is_that_of_a_new_agent() -> None:
    async with world(MemoryLog()) as here:
        await live(here)
        await here.agent.destroy()
        await here.agent._runtime.load()
        assert (here.agent.state, here.agent.messages) == (None, [])
        assert (await here.agent.jobs.list(queued=True), await here.agent.jobs.list(queued=False)) == ([], [])
        assert await here.agent.fibers.list() == []
        Chat.gate.set()
        assert (await here.agent.save_messages([question()])).status == "completed"


async def test_a_caller_that_waits_for_a_turn_gets_an_error_not_the_new_agent() -> None:
    store = MemoryLog()
    async with world(store) as here:
        waiting = asyncio.create_task(here.agent.save_messages([question()]))
        await until(lambda: len(here.agent._runtime._directory) == 1)  # type: ignore[attr-defined]
        await quiet()
        await here.agent.destroy()
        with pytest.raises(AgentGone, match="it was destroyed"):
            await asyncio.wait_for(waiting, PATIENCE)
        await quiet()
        assert await is_empty(store, AGENT)


async def test_a_turn_may_destroy_its_own_agent_and_goes_on_without_a_word() -> None:
    store = MemoryLog()
    async with world(store) as here:
        with pytest.raises(AgentGone):
            await here.agent.save_messages([question("destroy")])
        await until(lambda: "after" in Chat.heard)
        await quiet()
        assert await is_empty(store, AGENT)
        assert here.directory._departing == set()


async def test_a_job_and_a_fiber_may_destroy_their_own_agent() -> None:
    store = MemoryLog()
    async with world(store) as here:
        await here.agent.queue("end_it")
        await until(lambda: "ended it" in Chat.heard)
        await quiet()
        assert await is_empty(store, AGENT)
        assert await here.agent.run_fiber("end", lambda: _ended(here.agent)) == "ended"
        await quiet()
        assert await is_empty(store, AGENT)


async def _ended(agent: Agent) -> str:
    await agent.destroy()
    return "ended"


async def test_an_agent_may_destroy_itself_as_it_starts() -> None:
    store = MemoryLog()
    async with world(store) as here:
        await here.agent.set_state(1)
        here.clock.advance(200)
        await until(lambda: len(here.directory) == 0)
        Chat.destroys_at_start = True
        with pytest.raises(AgentGone, match="as it was loaded"):
            await here.agent._runtime.load()
        assert await is_empty(store, AGENT)
        await here.agent._runtime.load()
        assert here.agent.state is None


async def test_destroying_twice_at_once_and_again_is_destroying() -> None:
    store = MemoryLog()
    async with world(store) as here:
        await live(here)
        await asyncio.gather(*(here.agent.destroy() for _ in range(3)), here.child.destroy())
        await here.agent.destroy()
        assert await is_empty(store, AGENT, CHILD)


async def test_a_caller_during_the_destruction_waits_and_gets_the_new_agent() -> None:
    async with world(MemoryLog()) as here:
        await live(here)
        destroying = asyncio.create_task(here.agent.destroy())
        await asyncio.sleep(0)
        await here.agent.set_state("new")
        assert here.agent.state == "new"
        await destroying
        assert here.agent.state == "new"


async def test_a_child_is_destroyed_alone() -> None:
    store = MemoryLog()
    async with world(store) as here:
        await live(here)
        await here.child.destroy()
        assert (await store.read(CHILD, Seq(0)), here.forgotten) == ([], [CHILD])
        assert here.agent.state == {"count": 1}
        assert [job.callback for job in await here.agent.jobs.list(queued=True)] == ["hang"]


class Stubborn(MemoryLog):
    """Cannot delete anything for a while."""

    is_stuck = True

    async def destroy(self, agent: AgentId, epoch: Epoch) -> None:
        if self.is_stuck:
            raise LogUnavailable("unable to destroy; the disk is full")
        await super().destroy(agent, epoch)


async def test_a_failed_destruction_is_retried_and_blocks_the_agent_until_then() -> None:
    store = Stubborn()
    async with world(store) as here:
        await live(here)
        with pytest.raises(LogUnavailable):
            await here.agent.destroy()
        with pytest.raises(LogUnavailable):
            await here.agent._runtime.load()
        store.is_stuck = False
        here.clock.advance(60)
        await until(lambda: "start ann" in Chat.heard[2:])
        assert await is_empty(store, AGENT, CHILD)
        assert here.agent.state is None


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
async def test_a_process_that_dies_on_the_way_has_destroyed_all_or_nothing(at: int, when: Any) -> None:
    """There are two commits: the decision and the deletion. After the first one, any process completes the deletion."""
    kept = MemoryLog()
    here = World(kept)
    await here.directory.open()
    for agent in (here.agent, here.child):
        await agent.set_state({"count": 1})
    await here.directory.aclose()
    await kept.open()
    log = CrashingLog(kept, at, when)
    here = World(log)
    here.directory._is_open = True  # the store is open already
    destroying = asyncio.create_task(here.agent.destroy())
    await asyncio.wait_for(log.crashed.wait(), PATIENCE)
    await quiet(20)
    assert not destroying.done()
    await kill_everything()
    await kept.aclose()
    async with world(kept) as next_one:
        if (at, when) == (1, "before"):
            await next_one.agent._runtime.load()
            await next_one.child._runtime.load()
            assert (next_one.agent.state, next_one.child.state) == ({"count": 1}, {"count": 1})
            return
        assert await is_empty(kept, AGENT, CHILD)
        await next_one.agent._runtime.load()
        assert (next_one.agent.state, Chat.heard[-1]) == (None, "start ann")
        assert CHILD in (*here.forgotten, *next_one.forgotten)
