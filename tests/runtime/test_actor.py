"""The one writer works without a task: what is posted while it commits waits for it, and nobody waits in vain."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from holdfast.core.commands import SetState
from holdfast.errors import AgentStopped
from holdfast.events import Outcome, StateSet, to_raw
from holdfast.log.base import Batch
from holdfast.log.memory import MemoryLog
from holdfast.runtime.api import TurnCall
from holdfast.testing import Gate, ScriptedResponder
from tests.runtime.facts import rounds, written
from tests.runtime.kit import AGENT, PATIENCE, running, submit, watching

asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")


class SlowDisk(MemoryLog):
    """A disk that is done with an append when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.appends = 0

    async def append(self, batch: Batch) -> None:
        self.appends += 1
        await self.gate.wait()
        await super().append(batch)


async def test_what_is_asked_during_a_commit_is_decided_together_behind_it() -> None:
    store = SlowDisk()
    async with running(store, ScriptedResponder([])) as directory:
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            first = asyncio.create_task(loaded.actor.ask(SetState(to_raw(1))))
            await rounds()
            others = [asyncio.create_task(loaded.actor.ask(SetState(to_raw(value)))) for value in (2, 3)]
            await rounds()
            assert store.appends == 1, "nothing is decided on what is not committed"
            assert not any(task.done() for task in (first, *others))
            store.gate.open()
            await asyncio.gather(first, *others)
            assert store.appends == 2
        assert [bytes(event.state) for event in await written(store) if isinstance(event, StateSet)] == [
            b"1",
            b"2",
            b"3",
        ]


async def test_who_asks_of_an_actor_that_is_cancelled_in_the_middle_of_a_commit_is_told() -> None:
    store = SlowDisk()
    async with running(store, ScriptedResponder(["yes"])) as directory:
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            waiting = [asyncio.create_task(loaded.actor.ask(submit(name))) for name in ("r1", "r2")]
            await rounds()
            waiting.append(asyncio.create_task(loaded.actor.ask(submit("r3"))))
            await rounds()
            assert loaded.task is not None
            loaded.task.cancel()
            for task in waiting:
                with pytest.raises(AgentStopped, match="Reconnect"):
                    await task
            assert loaded.actor.tail.closed
            assert await written(store) == []


async def test_what_answers_runs_in_the_agents_own_context_whoever_asks() -> None:
    found: list[str] = []

    def answer(call: TurnCall) -> list[str]:
        found.append(asked_by.get())
        return ["yes"]

    async with running(MemoryLog(), ScriptedResponder(answer)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            asked_by.set("somebody")
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
    assert found == ["nobody"]
