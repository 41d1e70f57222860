"""Queues and schedules: in order, at their time, again after a failure, across restarts, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from everyword.agents import Agent, Every
from everyword.agents.chat_responder import responder_for
from everyword.errors import UsageError
from everyword.ids import AgentId
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, ManualClock
from tests.runtime.kit import kill_everything
from tests.timeouts import PATIENCE

AGENT = AgentId("worker/ann")
NOON = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 12 * 3_600_000


class Worker(Agent):
    """Notes what it does."""

    done: ClassVar[list[Any]] = []
    fails: ClassVar[int] = 0
    gate: ClassVar[asyncio.Event | None] = None

    at_once: ClassVar[int] = 0

    async def work(self, payload: Any) -> None:
        type(self).at_once += 1
        if type(self).gate is not None:
            await type(self).gate.wait()
        if type(self).fails > 0:
            type(self).fails -= 1
            raise RuntimeError("not yet")
        self.done.append(payload)

    def tick(self, payload: Any, missed: int) -> None:
        self.done.append((payload, missed))

    async def hang(self, payload: Any) -> None:
        self.done.append("hangs")
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def fresh() -> None:
    Worker.done, Worker.fails, Worker.gate, Worker.at_once = [], 0, None, 0


@asynccontextmanager
async def working(store: MemoryLog, clock: ManualClock) -> AsyncIterator[Worker]:
    def responder(agent: AgentId) -> Any:
        return responder_for(Worker, AgentRuntime(directory, agent))

    directory = Directory(store, responder, clock=clock, settings=Settings(grace=0.0))
    async with directory:
        yield Worker(AgentRuntime(directory, AGENT))


@asynccontextmanager
async def doomed(store: MemoryLog, clock: ManualClock) -> AsyncIterator[Worker]:
    """A process that is killed at the end of the block."""
    log = CrashingLog(store)
    directory = Directory(log, lambda agent: responder_for(Worker, AgentRuntime(directory, agent)), clock=clock)
    await directory.open()
    yield Worker(AgentRuntime(directory, AGENT))
    log.crashed.set()
    await kill_everything()
    await store.aclose()


async def until(fact: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def quiet(rounds: int = 60) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def test_queued_jobs_run_one_after_the_other_in_order() -> None:
    async with working(MemoryLog(), ManualClock()) as agent:
        Worker.gate = asyncio.Event()
        for number in range(5):
            await agent.queue("work", number)
        assert [job.payload for job in await agent.jobs.list(queued=True)] == [0, 1, 2, 3, 4]
        await quiet()
        assert Worker.at_once == 1
        Worker.gate.set()
        await until(lambda: len(Worker.done) == 5)
        assert Worker.done == [0, 1, 2, 3, 4]
        assert await agent.jobs.list(queued=True) == []


async def test_what_waits_in_the_queue_can_be_taken_out() -> None:
    async with working(MemoryLog(), ManualClock()) as agent:
        Worker.gate = asyncio.Event()
        ids = [await agent.queue("work", number) for number in range(3)]
        await agent.queue("tick", "t")
        assert await agent.jobs.cancel(ids[1]) is True
        assert await agent.jobs.cancel(ids[1]) is False
        assert await agent.jobs.cancel_all("tick", queued=True) == 1
        Worker.gate.set()
        await until(lambda: len(Worker.done) == 2)
        assert Worker.done == [0, 2]
        assert await agent.jobs.cancel_all(queued=True) == 0


async def test_a_job_that_fails_is_tried_again_after_a_pause_and_holds_the_queue() -> None:
    clock = ManualClock()
    async with working(MemoryLog(), clock) as agent:
        Worker.fails = 2
        await agent.queue("work", "first")
        await agent.queue("work", "second")
        await until(lambda: Worker.fails == 1)
        await quiet()
        assert Worker.done == []
        clock.advance(0.5)
        await until(lambda: Worker.fails == 0)
        await quiet()
        clock.advance(1)
        await until(lambda: Worker.done == ["first", "second"])


async def test_a_job_that_never_succeeds_is_given_up_and_the_next_runs() -> None:
    clock = ManualClock()
    async with working(MemoryLog(), clock) as agent:
        Worker.fails = 2
        await agent.queue("work", "bad", max_attempts=2)
        await agent.queue("work", "good")
        await until(lambda: Worker.fails == 1)
        await quiet()
        clock.advance(0.5)
        await until(lambda: Worker.done == ["good"])
        assert await agent.jobs.list(queued=True) == []


async def test_a_job_survives_the_process_and_runs_again() -> None:
    store, clock = MemoryLog(), ManualClock()
    async with working(store, clock) as agent:
        await agent.queue("hang", None)
        await until(lambda: Worker.done == ["hangs"])
    async with working(store, clock):
        await until(lambda: len(Worker.done) == 2)
    assert Worker.done == ["hangs", "hangs"]


async def test_a_job_that_kills_every_process_is_set_aside() -> None:
    store, clock = MemoryLog(), ManualClock()
    for count in range(3):
        async with doomed(store, clock) as agent:
            if not count:
                await agent.queue("hang", None, max_attempts=3)
                await agent.queue("work", "next")
            await until(lambda count=count: len(Worker.done) > count)
    assert Worker.done == ["hangs"] * 3
    async with working(store, clock) as agent:
        await until(lambda: Worker.done[-1] == "next")
        assert Worker.done == ["hangs"] * 3 + ["next"]
        assert await agent.jobs.list(queued=True) == []


async def test_a_stop_in_good_order_is_no_failure_of_the_job() -> None:
    store, clock = MemoryLog(), ManualClock()
    for stop in range(8):
        async with working(store, clock) as agent:
            if not stop:
                await agent.queue("hang", None, max_attempts=3)
            await until(lambda stop=stop: len(Worker.done) == stop + 1)
    async with working(store, clock) as agent:
        assert [job.attempts for job in await agent.jobs.list(queued=True)] in ([0], [1])


@pytest.mark.parametrize("when", [60, timedelta(minutes=1), datetime.fromtimestamp(NOON / 1000 + 60, UTC)])
async def test_something_scheduled_once_happens_at_its_time_and_never_again(when: Any) -> None:
    clock = ManualClock(NOON)
    async with working(MemoryLog(), clock) as agent:
        planned = await agent.schedule(when, "tick", "once")
        assert (planned.kind, planned.time) == ("once", NOON / 1000 + 60)
        clock.advance(59)
        await quiet()
        assert Worker.done == []
        clock.advance(1)
        await until(lambda: Worker.done == [("once", 0)])
        assert await agent.jobs.list(queued=False) == []
        clock.advance(600)
        await quiet()
        assert len(Worker.done) == 1


async def test_an_interval_comes_again_and_again_until_it_is_cancelled() -> None:
    clock = ManualClock(NOON)
    async with working(MemoryLog(), clock) as agent:
        planned = await agent.schedule(Every(minutes=1), "tick", "x")
        for count in (1, 2, 3):
            clock.advance(60)
            await until(lambda count=count: len(Worker.done) == count)
            await quiet()
        assert await agent.cancel_schedule(planned.id) is True
        clock.advance(600)
        await quiet()
        assert Worker.done == [("x", 0)] * 3


async def test_a_cron_line_is_read_in_its_time_zone() -> None:
    clock = ManualClock(NOON)  # noon of 14 November 2023, UTC: one o'clock in Berlin
    async with working(MemoryLog(), clock) as agent:
        there = await agent.schedule("0 14 * * *", "tick", "berlin", zone="Europe/Berlin")
        here = await agent.schedule("0 14 * * *", "tick", "utc")
        assert (there.time, here.time) == (NOON / 1000 + 3_600, NOON / 1000 + 7_200)
        assert [each.payload for each in await agent.jobs.list(queued=False)] == ["berlin", "utc"]
        clock.advance(3_600)
        await until(lambda: Worker.done == [("berlin", 0)])
        await quiet()
        assert [each.payload for each in await agent.jobs.list(queued=False)] == ["utc", "berlin"]


async def test_any_number_of_missed_runs_is_one_run_that_is_told_how_many() -> None:
    store, clock = MemoryLog(), ManualClock(NOON)
    async with working(store, clock) as agent:
        await agent.schedule("0 * * * *", "tick", "cron")
        await agent.schedule(Every(hours=1), "tick", "every")
    clock.advance(5 * 3_600 + 60)
    async with working(store, clock):
        await until(lambda: len(Worker.done) == 2)
        assert sorted(Worker.done) == [("cron", 4), ("every", 4)]
        await quiet()
        assert len(Worker.done) == 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda agent: agent.queue("nobody"), "no public method"),
        (lambda agent: agent.queue("_private"), "no public method"),
        (lambda agent: agent.schedule("not a cron", "work"), "not a cron expression"),
        (lambda agent: agent.schedule("* * * * *", "work", zone="Mars/Base"), "not a time zone"),
        (lambda agent: agent.schedule(Every(), "work"), "every 0 seconds"),
        (lambda agent: agent.schedule(datetime(2030, 1, 1), "work"), "without a time zone"),  # noqa: DTZ001
    ],
)
async def test_what_cannot_be_put_aside_is_refused_with_what_to_do(call: Any, text: str) -> None:
    async with working(MemoryLog(), ManualClock()) as agent:
        with pytest.raises(UsageError, match=text):
            await call(agent)
