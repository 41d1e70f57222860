"""Schedules that are added once, and those that a class declares: across restarts, changes of the class and crashes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from everyword.agents import Agent, AIChatAgent, Every, scheduled, tool
from everyword.agents.chat_responder import responder_for
from everyword.errors import UsageError
from everyword.events import Event, JobAdded, JobEnded, decode_event
from everyword.ids import AgentId
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, ManualClock
from tests.crash.proofs import read_all
from tests.runtime.kit import kill_everything
from tests.timeouts import PATIENCE

AGENT = AgentId("worker/ann")
NOON = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 12 * 3_600_000
HOUR = 3_600


class Base(Agent):
    done: ClassVar[list[Any]] = []
    after: ClassVar[Callable[[Any], Any] | None] = None

    async def tick(self, payload: Any) -> None:
        self.done.append(("tick", payload))

    async def poll(self, payload: Any) -> None:
        self.done.append(("poll", payload))
        await self.schedule(60, "poll", payload, key="poll")

    async def change(self, payload: Any) -> None:
        await self.schedule(Every(hours=2), "change", payload, key="change")
        await asyncio.sleep(0)
        self.done.append(("change", payload))


@pytest.fixture(autouse=True)
def fresh() -> None:
    Base.done = []


@asynccontextmanager
async def started(cls: type[Agent], store: LogStore, clock: ManualClock) -> AsyncIterator[Any]:
    """Serve one agent of the class and load it; yield a handle of it."""
    directory = Directory(
        store,
        lambda agent: responder_for(cls, AgentRuntime(directory, agent)),
        clock=clock,
        settings=Settings(grace=0.0),
    )
    async with directory, directory.attach(AGENT):
        yield cls(AgentRuntime(directory, AGENT))


async def until(fact: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def planned(agent: Any) -> list[tuple[str, float]]:
    """What is scheduled: the callback, and the seconds from noon until it comes."""
    return [(each.callback, each.time - NOON / 1000) for each in await agent.jobs.list(queued=False)]


async def log_of(store: LogStore) -> list[Event]:
    """The events of a store that is not open."""
    await store.open()
    log = [decode_event(stored.body) for stored in await read_all(store, AGENT)]
    await store.aclose()
    return log


async def events_of(store: LogStore, kind: type[Any]) -> list[Any]:
    return [event for event in await log_of(store) if isinstance(event, kind)]


# -- added once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["0 9 * * *", Every(hours=1)])
async def test_a_repeating_schedule_in_on_start_is_one_however_often_the_agent_starts(
    when: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Worker(Base):
        async def on_start(self) -> None:
            self.first = await self.schedule(when, "tick", {"a": 1})

    store, clock = MemoryLog(), ManualClock(NOON)
    for _ in range(3):
        async with started(Worker, store, clock) as agent:
            assert len(await agent.jobs.list(queued=False)) == 1
        clock.advance(60)
    assert len(await events_of(store, JobAdded)) == 1
    assert caplog.text == ""


async def test_scheduling_the_same_again_returns_what_there_is() -> None:
    async with started(Base, MemoryLog(), ManualClock(NOON)) as agent:
        first = await agent.schedule("0 9 * * *", "tick", zone="Europe/Berlin")
        assert await agent.schedule("0 9 * * *", "tick", zone="Europe/Berlin") == first
        other = await agent.schedule("0 9 * * *", "tick")
        assert other.id != first.id
        keyed = await agent.schedule("0 9 * * *", "tick", key="mine")
        assert (keyed.key, first.key) == ("mine", None)
        assert len(await agent.jobs.list(queued=False)) == 3


async def test_fifty_callers_at_the_same_time_add_one_schedule() -> None:
    async with started(Base, MemoryLog(), ManualClock(NOON)) as agent:
        made = await asyncio.gather(*(agent.schedule(Every(hours=1), "tick") for _ in range(50)))
        assert len({each.id for each in made}) == 1
        delays = await asyncio.gather(*(agent.schedule(60, "tick", key="k") for _ in range(50)))
        assert len({each.id for each in delays}) == 1
        assert len(await agent.jobs.list(queued=False)) == 2


@pytest.mark.parametrize("when", [60, timedelta(minutes=1), datetime.fromtimestamp(NOON / 1000 + 60, UTC)])
async def test_delays_and_dates_are_added_every_time_unless_they_have_a_key(when: Any) -> None:
    store, clock = MemoryLog(), ManualClock(NOON)
    async with started(Base, store, clock) as agent:
        for _ in range(2):
            await agent.schedule(when, "tick", "x")
            clock.advance(1)
            await agent.schedule(when, "tick", "y", key="once")
    async with started(Base, store, clock) as agent:
        await agent.schedule(when, "tick", "y", key="once")
        assert [each.payload for each in await agent.jobs.list(queued=False)].count("y") == 1
        clock.advance(120)
        await until(lambda: len(Base.done) == 3)
        assert sorted(payload for _, payload in Base.done) == ["x", "x", "y"]
        again = await agent.schedule(when, "tick", "y", key="once")  # it is over: the key is free
        assert [each.id for each in await agent.jobs.list(queued=False)] in ([again.id], [])


async def test_a_key_that_means_something_else_now_replaces_the_schedule() -> None:
    async with started(Base, MemoryLog(), ManualClock(NOON)) as agent:
        first = await agent.schedule(60, "tick", "old", key="k")
        second = await agent.schedule(60, "tick", "new", key="k")
        assert first.id != second.id
        assert [each.payload for each in await agent.jobs.list(queued=False)] == ["new"]


async def test_a_method_that_schedules_its_own_key_again_goes_on_for_ever() -> None:
    clock = ManualClock(NOON)
    async with started(Base, MemoryLog(), clock) as agent:
        await agent.schedule(60, "poll", "p", key="poll")
        for count in (1, 2, 3):
            clock.advance(60)
            await until(lambda count=count: len(Base.done) == count)
            while len(await agent.jobs.list(queued=False)) > 1:  # noqa: ASYNC110 - until the run that asked has ended
                await asyncio.sleep(0)
            assert await planned(agent) == [("poll", 60.0 * (count + 1))]


async def test_a_run_that_replaces_its_own_schedule_goes_on_to_its_end() -> None:
    clock = ManualClock(NOON)
    async with started(Base, MemoryLog(), clock) as agent:
        await agent.schedule(Every(hours=1), "change", key="change")
        clock.advance(HOUR)
        await until(lambda: Base.done == [("change", None)])
        assert await planned(agent) == [("change", 3 * 3600.0)]


@pytest.mark.parametrize("when", [60, datetime.fromtimestamp(NOON / 1000 + 60, UTC)])
async def test_a_delay_in_on_start_without_a_key_is_warned_of_once(when: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Careless(Base):
        async def on_start(self) -> None:
            await self.schedule(when, "tick")

    store = MemoryLog()
    for _ in range(3):
        async with started(Careless, store, ManualClock(NOON)) as agent:
            pass
    (record,) = [each for each in caplog.records if "on_start" in each.getMessage()]
    assert record.levelno == logging.WARNING
    text = record.getMessage()
    assert "Careless.on_start schedules 'tick'" in text and "every time" in text and "key=" in text
    assert agent is not None


async def test_a_delay_with_a_key_or_outside_of_on_start_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    class Careful(Base):
        async def on_start(self) -> None:
            await self.schedule(60, "tick", key="k")
            self.later = asyncio.create_task(self.wait())

        async def wait(self) -> None:
            await loaded.wait()
            await self.schedule(60, "tick")
            scheduled_later.set()

    loaded, scheduled_later = asyncio.Event(), asyncio.Event()
    async with started(Careful, MemoryLog(), ManualClock(NOON)) as agent:
        await agent.schedule(60, "tick")
        loaded.set()
        await scheduled_later.wait()
        assert len(await agent.jobs.list(queued=False)) == 3
    assert caplog.text == ""


@pytest.mark.parametrize("key", [7, ""])
async def test_a_key_that_is_no_name_is_refused(key: Any) -> None:
    async with started(Base, MemoryLog(), ManualClock(NOON)) as agent:
        with pytest.raises(UsageError, match=r"unable to schedule with the key .*; a key is text, at most 512 bytes"):
            await agent.schedule(60, "tick", key=key)


# -- declared on the class -------------------------------------------------------------------------------------------


class First(Base):
    @scheduled("0 9 * * *", zone="Europe/Berlin")
    async def report(self) -> None:
        self.done.append("report")

    @scheduled(Every(hours=1), {"n": 1})
    @scheduled(Every(hours=1), {"n": 2})
    async def sweep(self, payload: Any, missed: int = 0) -> None:
        self.done.append(("sweep", payload["n"], missed))


class Second(Base):
    """First, as the next release has it: `report` is gone, `sweep` is one, `digest` is new."""

    @scheduled(Every(hours=1), {"n": 1})
    async def sweep(self, payload: Any) -> None:
        self.done.append(("sweep", payload["n"]))

    @scheduled(Every(hours=3))
    async def digest(self) -> None:
        self.done.append("digest")

    async def report(self) -> None: ...


async def test_what_a_class_declares_is_scheduled_at_the_start_and_runs() -> None:
    store, clock = MemoryLog(), ManualClock(NOON)
    async with started(First, store, clock) as agent:
        assert sorted(await planned(agent)) == [("report", 20 * 3600.0), ("sweep", 3600.0), ("sweep", 3600.0)]
        assert all(each.declared for each in await agent.jobs.list(queued=False))
        clock.advance(HOUR)
        await until(lambda: len(Base.done) == 2)
        assert sorted(Base.done) == [("sweep", 1, 0), ("sweep", 2, 0)]
        clock.advance(19 * HOUR)
        await until(lambda: "report" in Base.done)


async def test_a_restart_writes_nothing_and_leaves_every_time_as_it_was() -> None:
    store, clock = MemoryLog(), ManualClock(NOON)
    async with started(First, store, clock) as agent:
        before = await planned(agent)
    written = len(await log_of(store))
    clock.advance(HOUR / 2)
    async with started(First, store, clock) as agent:
        assert await planned(agent) == before
    assert len(await log_of(store)) == written


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_another_release_adds_keeps_and_cancels_in_one_commit(kind: str, tmp_path: Path) -> None:
    memory, clock = MemoryLog(), ManualClock(NOON)

    def store() -> LogStore:
        return memory if kind == "memory" else SqliteLog(tmp_path / "log.db")

    async with started(First, store(), clock):
        pass
    clock.advance(HOUR / 2)
    log = CrashingLog(store())
    async with started(Second, log, clock) as agent:
        assert log.appends == 1
        assert sorted(await planned(agent)) == [("digest", 1800.0 + 3 * 3600), ("sweep", 3600.0)]
    cancelled = [event.outcome for event in await events_of(store(), JobEnded)]
    assert cancelled == ["cancelled", "cancelled"]


async def test_a_class_that_declares_nothing_any_more_cancels_what_it_declared_and_nothing_else() -> None:
    store, clock = MemoryLog(), ManualClock(NOON)
    async with started(First, store, clock) as agent:
        await agent.schedule(Every(hours=5), "tick")
        await agent.schedule(60, "tick", key="k")
    async with started(Base, store, clock) as agent:
        assert sorted(await planned(agent)) == [("tick", 60.0), ("tick", 5 * 3600.0)]


async def test_a_schedule_that_is_due_and_not_declared_any_more_does_not_run() -> None:
    store, clock = MemoryLog(), ManualClock(NOON)
    async with started(First, store, clock):
        pass
    clock.advance(30 * HOUR)
    async with started(Second, store, clock) as agent:
        await until(lambda: ("sweep", 1) in Base.done)
        for _ in range(60):
            await asyncio.sleep(0)
        assert Base.done == [("sweep", 1)]
        assert [callback for callback, _ in sorted(await planned(agent))] == ["digest", "sweep"]


async def test_code_that_scheduled_the_same_before_is_taken_over_at_its_time() -> None:
    class Before(Base):
        async def sweep(self, payload: Any) -> None: ...

        async def on_start(self) -> None:
            await self.schedule(Every(hours=1), "sweep", {"n": 1})

    class After(Second):
        async def on_start(self) -> None:
            await self.schedule(Every(hours=1), "sweep", {"n": 1})  # still there, and harmless

    store, clock = MemoryLog(), ManualClock(NOON)
    async with started(Before, store, clock):
        pass
    clock.advance(HOUR / 2)
    async with started(After, store, clock) as agent:
        assert sorted(await planned(agent)) == [("digest", 1800.0 + 3 * 3600), ("sweep", 3600.0)]


async def test_a_subclass_inherits_replaces_and_drops_what_is_declared() -> None:
    class Child(First):
        @scheduled("0 8 * * *")
        async def report(self) -> None: ...

        async def sweep(self, payload: Any, missed: int = 0) -> None: ...

    class Grandchild(Child): ...

    for cls in (Child, Grandchild):
        async with started(cls, MemoryLog(), ManualClock(NOON)) as agent:
            assert await planned(agent) == [("report", 20 * 3600.0)]


@pytest.mark.parametrize("base", [Agent, AIChatAgent])
async def test_every_kind_of_agent_may_declare(base: type[Agent]) -> None:
    class Worker(base):  # type: ignore[misc, valid-type]
        @scheduled(Every(minutes=1))
        def tick(self) -> None:
            Base.done.append("ticked")

    clock = ManualClock(NOON)
    async with started(Worker, MemoryLog(), clock) as agent:
        clock.advance(60)
        await until(lambda: Base.done == ["ticked"])
        assert [callback for callback, _ in await planned(agent)] == ["tick"]


async def test_on_start_sees_what_is_declared() -> None:
    seen: list[Any] = []

    class Worker(Second):
        async def on_start(self) -> None:
            seen.extend(await planned(self))

    async with started(Worker, MemoryLog(), ManualClock(NOON)):
        assert sorted(seen) == [("digest", 3 * 3600.0), ("sweep", 3600.0)]


# -- crashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
async def test_dying_at_any_append_of_two_releases_leaves_each_schedule_once(
    at: int, when: Literal["before", "after"]
) -> None:
    """Append 1 adds what First declares, append 2 turns it into what Second does."""
    store, clock = MemoryLog(), ManualClock(NOON)
    if at == 2:
        async with started(First, store, clock):
            pass
    cls: type[Agent] = First if at == 1 else Second
    log = CrashingLog(store, 1, when)
    directory = Directory(log, lambda agent: responder_for(cls, AgentRuntime(directory, agent)), clock=clock)
    await directory.open()
    dying = asyncio.create_task(directory.wake(AGENT))
    async with asyncio.timeout(PATIENCE):
        await log.crashed.wait()
    await kill_everything()
    dying.cancel()
    await store.aclose()

    async with started(Second, store, clock) as agent:
        assert sorted(await planned(agent)) == [("digest", 3 * 3600.0), ("sweep", 3600.0)]
    added = [event.callback for event in await events_of(store, JobAdded)]
    ended = len(await events_of(store, JobEnded))
    assert len(added) - ended == 2
    assert added.count("digest") == 1, "no half of a release was committed"


# -- mistakes --------------------------------------------------------------------------------------------------------


def method(self: Any) -> None: ...


@pytest.mark.parametrize(
    ("decorate", "why"),
    [
        (lambda: scheduled("every day")(method), r"not a cron expression of five fields"),
        (lambda: scheduled("0 0 31 2 *")(method), r"it never occurs"),
        (lambda: scheduled("0 9 * * *", zone="Mars/Base")(method), r"not a time zone"),
        (lambda: scheduled(Every())(method), r"every 0 seconds"),
        (lambda: scheduled(60)(method), r"60 does not repeat\. Give a cron line or Every\(\.\.\.\)"),  # type: ignore[arg-type]
        (lambda: scheduled(method), r"write @scheduled\(\"0 9 \* \* \*\"\) or @scheduled\(Every\(hours=1\)\)"),  # type: ignore[arg-type]
        (lambda: scheduled(Every(hours=1), object())(method), r"its payload has no JSON form"),
        (lambda: scheduled(Every(hours=1), max_attempts=0)(method), r"max_attempts is 0; give 1 or more"),
        (lambda: scheduled(Every(hours=1))(tool(name="t")(method)), r"put @scheduled directly on a method"),
        (lambda: scheduled(Every(hours=1), "x")(method), r"method does not take its payload"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_when_the_class_is_made(
    decorate: Callable[[], Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        decorate()


def test_a_private_method_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'_sweep'.* begins with an underscore"):

        class Worker(Agent):
            @scheduled(Every(hours=1))
            async def _sweep(self) -> None: ...


def test_the_same_schedule_twice_on_a_method_is_refused() -> None:
    with pytest.raises(UsageError, match=r"sweep has the same schedule twice"):

        class Worker(Agent):
            @scheduled(Every(hours=1))
            @scheduled(Every(minutes=60))
            async def sweep(self) -> None: ...
