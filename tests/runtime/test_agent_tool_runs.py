"""Watching runs when something is wrong: silence, hanging and failing stores, sub-agents that cannot be loaded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from everyword import AgentToolLimits, TurnLimits
from everyword.agents import responder_for
from everyword.agents.sub_agent_classes import class_of
from everyword.errors import AgentStopped, LogUnavailable
from everyword.ids import AgentId, RunId, TurnId, agent_id, parent_id
from everyword.log.base import Activation, Batch
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.agent_tool_runs import watching
from everyword.runtime.api import RunRecord
from everyword.runtime.directory import Directory
from everyword.testing import ManualClock
from tests.agents.crew import BASES, GATES, Crew, asked, crew
from tests.runtime.kit import PATIENCE, QUICK, soon

BOSS = agent_id("boss", "ann")


class Moody(MemoryLog):
    """A store that fails, or hangs, for sub-agents or for their parents."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_children = self.fails_parents = self.hangs_children = False
        self.refused = 0

    async def activate(self, agent: AgentId, *, recent: int = 256) -> Activation:
        if self.hangs_children and parent_id(agent) is not None:
            await asyncio.Event().wait()
        return await super().activate(agent, recent=recent)

    async def append_one(self, batch: Batch) -> None:
        is_child = parent_id(batch.agent) is not None
        if (self.fails_children and is_child) or (self.fails_parents and not is_child):
            self.refused += 1
            raise LogUnavailable("unable to append; the disk is full")
        await super().append_one(batch)


class Office:
    """A directory that serves a crew, on a clock that the test turns."""

    def __init__(self, crewed: Crew, store: MemoryLog) -> None:
        self.crew, self.clock = crewed, ManualClock()
        self.directory = Directory(store, self._responder, clock=self.clock, settings=QUICK)
        self.boss: Any = crewed.boss(AgentRuntime(self.directory, BOSS))
        self.missing = ""
        """The kind of agents that this process has no class for."""

    def _responder(self, agent: AgentId) -> Any:
        cls = class_of(agent, {"boss": self.crew.boss})
        if cls is None or cls.kind == self.missing:
            raise AgentStopped(f"unable to load {agent!r}; nobody knows its class")
        return responder_for(cls, AgentRuntime(self.directory, agent))

    async def ended(self, run: str) -> RunRecord:
        async with asyncio.timeout(PATIENCE):
            record: RunRecord = await self.boss._runtime.runs.wait(RunId(run))
            return record

    async def pass_time(self, seconds: int) -> None:
        """Let time pass, a second at a time, and let all tasks run in between."""
        for _ in range(seconds):
            self.clock.advance(1)
            for _ in range(5):
                await asyncio.sleep(0)


@asynccontextmanager
async def office(crewed: Crew, store: MemoryLog | None = None) -> AsyncIterator[Office]:
    made = Office(crewed, store if store is not None else MemoryLog())
    async with made.directory:
        yield made


@pytest.mark.parametrize("base", BASES)
async def test_a_silent_sub_agent_is_interrupted_and_its_real_end_counts_once_it_is_asked_for(base: str) -> None:
    """Trap 193: giving up swallows nothing."""
    crewed = crew(base)
    async with office(crewed) as here:
        waiting = asyncio.create_task(here.boss.run_agent_tool(crewed.kid, "one gate:a two", run_id="r"))
        await GATES["gate:a"].reached.wait()
        await here.pass_time(100)
        assert not waiting.done()
        await here.pass_time(80)
        result = await waiting
        assert (result.status, result.reason, result.child_still_running) == ("interrupted", "no-progress", True)
        assert result.for_model()["retryable"] is True
        again = asyncio.create_task(here.boss.run_agent_tool(crewed.kid, "one gate:a two", run_id="r"))
        GATES["gate:a"].open()
        result = await again
        assert (result.status, result.summary) == ("completed", "one two ")
        assert (await here.boss.agent_tools.get("r")).reason is None


async def test_every_word_of_a_sub_agent_is_a_sign_of_life() -> None:
    crewed = crew("chat")
    async with office(crewed) as here:
        text = " ".join(f"w{n} gate:{n}" for n in range(5))
        waiting = asyncio.create_task(here.boss.run_agent_tool(crewed.kid, text, run_id="r"))
        for n in range(5):
            await GATES[f"gate:{n}"].reached.wait()
            await here.pass_time(80)
            GATES[f"gate:{n}"].open()
        assert (await waiting).status == "completed"


async def test_a_sub_agent_that_waits_for_one_of_its_own_is_not_silent() -> None:
    crewed = crew("chat")
    middle = type("Middle", (crewed.boss,), {"heard": [], "agent_tool_limits": AgentToolLimits(silence_timeout=None)})
    async with office(crewed) as here:
        waiting = asyncio.create_task(here.boss.run_agent_tool(middle, ["gate:a deep"], run_id="m"))
        await GATES["gate:a"].reached.wait()
        await here.pass_time(400)
        GATES["gate:a"].open()
        assert (await waiting).status == "completed"


async def test_a_detached_run_may_be_silent_for_longer() -> None:
    crewed = crew("chat")
    async with office(crewed) as here:
        await here.boss.agent_tools.start(crewed.kid, "gate:a done", run_id="r")
        await GATES["gate:a"].reached.wait()
        await here.pass_time(600)
        GATES["gate:a"].open()
        assert (await here.ended("r")).status == "completed"


async def test_a_stuck_model_is_asked_again_and_given_up_after_so_many_attempts() -> None:
    crewed = crew("chat")
    crewed.kid.turn_limits = TurnLimits(stall_timeout=10.0, max_attempts=2)
    async with office(crewed) as here:
        waiting = asyncio.create_task(here.boss.run_agent_tool(crewed.kid, "gate:a", run_id="r"))
        await GATES["gate:a"].reached.wait()
        await here.pass_time(60)
        result = await waiting
        assert (result.status, result.error) == ("error", crewed.kid.turn_limits.failed_text)


@pytest.mark.parametrize("base", BASES)
async def test_a_sub_agent_lost_to_its_store_goes_on_and_its_parent_never_knew(base: str) -> None:
    crewed, store = crew(base), Moody()
    async with office(crewed, store) as here:
        waiting = asyncio.create_task(here.boss.run_agent_tool(crewed.kid, "one gate:a two", run_id="r"))
        await GATES["gate:a"].reached.wait()
        store.fails_children = True
        GATES["gate:a"].open()
        await soon(lambda: store.refused > 0)
        store.fails_children = False
        await here.pass_time(5)
        result = await waiting
        assert (result.status, result.summary) == ("completed", "one two ")


@pytest.mark.parametrize("base", BASES)
async def test_a_parent_lost_to_its_store_finds_its_sub_agent_again(base: str) -> None:
    crewed, store = crew(base), Moody()
    async with office(crewed, store) as here:
        turn = asyncio.create_task(here.boss.save_messages([asked("one gate:a two")]))
        await GATES["gate:a"].reached.wait()
        store.fails_parents = True
        GATES["gate:a"].open()
        await soon(lambda: store.refused > 0)
        store.fails_parents = False
        await here.pass_time(5)
        async with asyncio.timeout(PATIENCE):
            assert (await turn).message.text.startswith('["one two "]')
        assert (await here.ended("agent-tool:c0")).status == "completed"


async def test_a_sub_agent_that_hangs_during_loading_blocks_no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 191."""
    monkeypatch.setattr(watching, "LOOK", 0.01)
    crewed, store = crew("chat", agent_tool_limits=AgentToolLimits(silence_timeout=30.0)), Moody()
    store.hangs_children = True
    async with office(crewed, store) as here, here.directory.attach(BOSS) as loaded:
        turn = asyncio.create_task(here.boss.save_messages([asked("one")]))
        await soon(lambda: loaded.reconciler.runs.is_busy)
        async with asyncio.timeout(PATIENCE):
            assert await loaded.reconciler.runs.last_word(TurnId(1)) is None
            assert (await here.boss.agent_tools.start(crewed.kid, "two", run_id="r")).status == "running"
        await here.pass_time(80)
        assert '"status": "interrupted"' in (await turn).message.text
        for task in list(here.directory._loading.values()):
            task.cancel()  # nothing else ends a task that hangs for ever


async def test_stopping_a_run_before_its_sub_agent_has_begun_leaves_no_turn_behind() -> None:
    crewed, store = crew("chat"), Moody()
    async with office(crewed, store) as here:
        await here.boss._runtime.load()
        store.fails_children = True
        waiting = asyncio.create_task(here.boss.run_agent_tool(crewed.kid, "x", run_id="r"))
        await soon(lambda: store.refused > 0)
        stopping = asyncio.create_task(here.boss.agent_tools.cancel("r"))
        await here.pass_time(3)
        ended = await stopping
        assert ended.status == (await waiting).status == "aborted"
        store.fails_children = False
        kid = AgentRuntime(here.directory, AgentId(f"{BOSS}/sub/kid/r"))
        assert await kid.submissions.find("agent-tool:r") is None  # type: ignore[arg-type]


async def test_a_sub_agent_whose_class_is_gone_can_still_be_stopped() -> None:
    crewed = crew("chat")
    async with office(crewed) as here:
        await here.boss._runtime.load()
        here.missing = "kid"
        waiting = asyncio.create_task(here.boss.run_agent_tool(crewed.kid, "x", run_id="r"))
        await here.pass_time(3)
        stopping = asyncio.create_task(here.boss.agent_tools.cancel("r"))
        await here.pass_time(3)
        assert (await stopping).status == (await waiting).status == "aborted"


async def test_waiting_for_a_sub_agent_by_hand_is_no_stall() -> None:
    crewed = crew("chat")

    async def by_hand(self: Any, turn: Any) -> Any:
        result = await self.run_agent_tool(crewed.kid, "gate:a done", run_id="r")
        yield result.summary

    crewed.boss.on_chat_message, crewed.boss.turn_limits = by_hand, TurnLimits(stall_timeout=5.0)
    async with office(crewed) as here:
        turn = asyncio.create_task(here.boss.save_messages([asked()]))
        await GATES["gate:a"].reached.wait()
        await here.pass_time(60)
        GATES["gate:a"].open()
        assert (await turn).message.text == "done "


async def test_a_process_that_stops_leaves_runs_open_for_the_next() -> None:
    crewed, store = crew("chat"), MemoryLog()
    async with office(crewed, store) as here:
        asyncio.create_task(here.boss.save_messages([asked("one gate:a two")])).add_done_callback(
            lambda t: t.exception()
        )
        await GATES["gate:a"].reached.wait()
    GATES["gate:a"].open()
    async with office(crewed, store) as here:
        assert (await here.ended("agent-tool:c0")).summary == "one two "
        await here.boss._runtime.wait_until_idle()
        assert here.boss.messages[-1].text == '["one two "]'
