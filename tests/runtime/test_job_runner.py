"""Runs of jobs: stopped when the job is cancelled, looked at again when they break, and what counts as a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from everyword.agents import Agent, Every
from everyword.agents.chat_responder import responder_for
from everyword.errors import AgentGone
from everyword.events import JobEnded, JobStarted
from everyword.ids import AgentId
from everyword.log.memory import MemoryLog
from everyword.runtime import job_runner
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import Gate, ManualClock
from tests.crash.proofs import of_kind, read_all
from tests.runtime.kit import SlowDisk
from tests.timeouts import PATIENCE

AGENT = AgentId("worker/ann")


class Worker(Agent):
    """Notes what it does."""

    heard: ClassVar[list[Any]] = []
    gate: ClassVar[asyncio.Event] = asyncio.Event()
    raises: ClassVar[BaseException | None] = None

    async def hang(self, payload: Any) -> None:
        self.heard.append("begins")
        try:
            await asyncio.Event().wait()
        finally:
            await type(self).gate.wait()
            await self.set_state("cleaned up")
            self.heard.append("over")

    async def note(self, payload: Any) -> None:
        self.heard.append(payload)

    async def tick(self, payload: Any) -> None:
        (own,) = await self.jobs.list("tick", queued=False)
        await self.cancel_schedule(own.id)
        await asyncio.sleep(0)
        await self.set_state("ticked")
        self.heard.append("ticked")

    async def fail(self, payload: Any) -> None:
        self.heard.append("fails")
        error, type(self).raises = type(self).raises, None
        if error is not None:
            raise error


@pytest.fixture(autouse=True)
def fresh() -> None:
    Worker.heard, Worker.gate, Worker.raises = [], asyncio.Event(), None


@asynccontextmanager
async def working(store: MemoryLog, clock: ManualClock) -> AsyncIterator[Worker]:
    def responder(agent: AgentId) -> Any:
        return responder_for(Worker, AgentRuntime(directory, agent))

    directory = Directory(store, responder, clock=clock, settings=Settings(grace=0.0))
    async with directory:
        yield Worker(AgentRuntime(directory, AGENT))


async def until(fact: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def quiet(rounds: int = 60) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def outcomes(store: MemoryLog) -> list[str]:
    return [event.outcome for event in of_kind(await read_all(store, AGENT), JobEnded)]


async def test_cancelling_a_running_job_stops_its_run_and_the_next_waits_until_it_let_go() -> None:
    store = MemoryLog()
    async with working(store, ManualClock()) as agent:
        job = await agent.queue("hang")
        await agent.queue("note", "next")
        await until(lambda: Worker.heard == ["begins"])
        assert await agent.jobs.cancel(job) is True
        await agent.set_state("something else is committed meanwhile")
        await quiet()
        assert Worker.heard == ["begins"]
        Worker.gate.set()
        await until(lambda: Worker.heard == ["begins", "over", "next"])
        assert agent.state == "cleaned up"
        await quiet()
        assert await outcomes(store) == ["cancelled", "done"]


async def test_a_run_whose_beginning_is_being_committed_at_a_shutdown_is_no_failure_of_the_job() -> None:
    store, clock = SlowDisk(), ManualClock()
    async with working(store, clock) as agent:
        queueing = asyncio.create_task(agent.queue("note", "once", max_attempts=1))
        await store.gate.reached.wait()
        store.gate.open()
        store.gate = Gate()
        await queueing
        await store.gate.reached.wait()
        asyncio.create_task(quiet()).add_done_callback(lambda _: store.gate.open())  # while it is being closed
    assert Worker.heard == []
    async with working(store, clock):
        await until(lambda: Worker.heard == ["once"])
        await quiet()
        assert await outcomes(store) == ["stopped", "done"]


async def test_cancelling_a_schedule_stops_the_run_that_it_has() -> None:
    store, clock = MemoryLog(), ManualClock()
    Worker.gate.set()
    async with working(store, clock) as agent:
        planned = await agent.schedule(Every(minutes=1), "hang")
        clock.advance(60)
        await until(lambda: Worker.heard == ["begins"])
        assert await agent.cancel_schedule(planned.id)
        await until(lambda: Worker.heard == ["begins", "over"])
        clock.advance(600)
        await quiet()
        assert (await outcomes(store), len(Worker.heard)) == (["cancelled"], 2)


async def test_a_run_that_cancels_its_own_job_goes_on_to_its_end() -> None:
    store, clock = MemoryLog(), ManualClock()
    async with working(store, clock) as agent:
        await agent.schedule(Every(minutes=1), "tick")
        clock.advance(60)
        await until(lambda: Worker.heard == ["ticked"])
        clock.advance(600)
        await quiet()
        assert (agent.state, Worker.heard) == ("ticked", ["ticked"])
        assert await outcomes(store) == ["cancelled"]


async def test_a_run_that_breaks_in_our_own_code_is_looked_at_again_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock, broken = MemoryLog(), ManualClock(), 2
    found = job_runner.missed_runs

    def break_twice(*args: Any) -> int:
        nonlocal broken
        broken -= 1
        if broken >= 0:
            raise KeyError("ours")
        return found(*args)

    monkeypatch.setattr(job_runner, "missed_runs", break_twice)
    async with working(store, clock) as agent:
        await agent.schedule(3_600, "note", "much later")
        await agent.queue("note", "soon")
        await until(lambda: broken == 1)
        await quiet()
        assert Worker.heard == []
        clock.advance(0.5)
        await until(lambda: broken == 0)
        await quiet()
        assert Worker.heard == []
        clock.advance(1)
        await until(lambda: Worker.heard == ["soon"])
        await quiet()
        clock.advance(3_600)
        await until(lambda: Worker.heard == ["soon", "much later"])


@pytest.mark.parametrize("error", [asyncio.CancelledError(), AgentGone("another agent"), ValueError("no")])
async def test_what_a_methods_own_code_raises_is_a_failure_and_it_is_tried_again(error: BaseException) -> None:
    store, clock = MemoryLog(), ManualClock()
    async with working(store, clock) as agent:
        Worker.raises = error
        await agent.queue("fail")
        await until(lambda: Worker.heard == ["fails"])
        await quiet()
        assert await outcomes(store) == ["retry"]
        clock.advance(0.5)
        await until(lambda: Worker.heard == ["fails", "fails"])
        await quiet()
        assert await outcomes(store) == ["retry", "done"]
        assert [event.run for event in of_kind(await read_all(store, AGENT), JobStarted)] == [1, 2]
