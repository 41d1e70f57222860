"""An agent that another node has taken: callers here get an error at once, and are not left waiting."""

from __future__ import annotations

import asyncio

import pytest

from everyword.errors import OwnedElsewhere
from everyword.ids import AgentId, RequestId, RunId, Seq
from everyword.log.base import Activation
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.server.event_streams import follow_log
from everyword.server.shared_slices import SharedSlices
from everyword.testing import ManualClock, ScriptedResponder
from tests.runtime.facts import rounds
from tests.runtime.kit import AGENT, PATIENCE, running, user


class TakenLog(MemoryLog):
    """A store whose agents another node owns, once `is_taken` is set."""

    is_taken = True

    async def activate(self, agent: AgentId, *, recent: int = 256) -> Activation:
        if self.is_taken:
            raise OwnedElsewhere(f"unable to load {agent!r}; node 7 owns it. Reconnect.", node=7)
        return await super().activate(agent, recent=recent)


async def test_a_turn_of_an_agent_that_another_node_owns_is_refused() -> None:
    async with running(TakenLog(), ScriptedResponder(["yes"])) as directory, asyncio.timeout(PATIENCE):
        with pytest.raises(OwnedElsewhere):
            await AgentRuntime(directory, AGENT).run_turn([user("u1")], request=RequestId("r1"))


async def test_a_caller_does_not_wait_for_a_run_of_an_agent_that_another_node_owns() -> None:
    async with running(TakenLog(), ScriptedResponder(["yes"])) as directory, asyncio.timeout(PATIENCE):
        with pytest.raises(OwnedElsewhere):
            await AgentRuntime(directory, AGENT).runs.wait(RunId("x"))


async def test_a_reader_of_an_agent_that_another_node_has_taken_is_told_to_come_back() -> None:
    store, clock = TakenLog(), ManualClock()
    store.is_taken = False
    async with running(store, ScriptedResponder(["yes"]), clock) as directory, asyncio.timeout(PATIENCE):
        await AgentRuntime(directory, AGENT).run_turn([user("u1")], request=RequestId("r1"))
        pieces = follow_log(directory, SharedSlices(), AGENT, Seq(0))
        assert await anext(pieces)
        store.is_taken = True
        loaded = directory.peek(AGENT)
        assert loaded is not None
        loaded.actor.stop()
        reading = asyncio.create_task(anext(pieces))  # type: ignore[arg-type]
        await rounds()
        clock.advance(directory.settings.retry_after / 1000)
        with pytest.raises(OwnedElsewhere):
            await reading
