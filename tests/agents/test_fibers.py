"""Background work: recorded, checkpointed, waited for or not, cancelled, handed back after a crash, never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from everyword.agents import Agent, AIChatAgent
from everyword.agents.chat_responder import responder_for
from everyword.agents.execution_context import get_current_agent
from everyword.agents.fibers import FiberContext
from everyword.core.fibers import MAX_ATTEMPTS
from everyword.errors import AgentStopped, FiberCancelled, LogUnavailable, Rejected, UsageError
from everyword.events import FiberEnded, FiberStarted, FiberStashed
from everyword.ids import AgentId
from everyword.log.base import Batch
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, Gate, ManualClock
from tests.crash.proofs import of_kind, read_all
from tests.runtime.kit import SlowDisk, kill_everything
from tests.timeouts import PATIENCE

AGENT = AgentId("worker/ann")
Hook = Callable[["Worker", FiberContext], Awaitable[None]]


class Worker(Agent):
    """Counts to three, from wherever it was."""

    heard: ClassVar[list[Any]] = []
    gate: ClassVar[asyncio.Event] = asyncio.Event()
    hook: ClassVar[Hook | None] = None

    async def count(self, fiber: FiberContext) -> list[int]:
        done: list[int] = list(fiber.snapshot or [])
        while len(done) < 3:
            self.heard.append((fiber.attempts, len(done)))
            if len(done) == 2:
                await type(self).gate.wait()
            done.append(len(done))
            await fiber.stash(done)
        return done

    async def on_fiber_recovered(self, ctx: FiberContext) -> None:
        self.heard.append(("recovered", ctx.id, ctx.name, ctx.snapshot, ctx.attempts))
        hook = type(self).hook
        if hook is not None:
            await hook(self, ctx)


@pytest.fixture(autouse=True)
def fresh() -> None:
    Worker.heard, Worker.gate, Worker.hook = [], asyncio.Event(), None


@asynccontextmanager
async def working(store: MemoryLog, clock: ManualClock | None = None, **settings: Any) -> AsyncIterator[Worker]:
    def responder(agent: AgentId) -> Any:
        return responder_for(Worker, AgentRuntime(directory, agent))

    given = Settings(grace=0.0, **settings)
    directory = Directory(store, responder, clock=clock or ManualClock(), settings=given)
    async with directory:
        yield Worker(AgentRuntime(directory, AGENT))


@asynccontextmanager
async def doomed(store: MemoryLog, clock: ManualClock | None = None) -> AsyncIterator[Worker]:
    """A process that is killed at the end of the block."""
    log = CrashingLog(store)
    directory = Directory(
        log, lambda agent: responder_for(Worker, AgentRuntime(directory, agent)), clock=clock or ManualClock()
    )
    await directory.open()
    yield Worker(AgentRuntime(directory, AGENT))
    log.crashed.set()
    await kill_everything()
    await store.aclose()


async def until(fact: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def quiet(rounds: int = 60) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def logged(store: MemoryLog, kind: Any) -> list[Any]:
    await store.open()
    try:
        return of_kind(await read_all(store, AGENT), kind)
    finally:
        await store.aclose()


async def test_a_fiber_is_recorded_checkpointed_and_gives_its_result() -> None:
    store = MemoryLog()
    Worker.gate.set()
    async with working(store) as agent:
        assert await agent.run_fiber("count", agent.count) == [0, 1, 2]
        (fiber,) = await agent.fibers.list()
        assert (fiber.name, fiber.status, fiber.snapshot, fiber.attempts) == ("count", "done", [0, 1, 2], 1)
        assert fiber.started_at == fiber.ended_at == 1_700_000_000
    assert len(await logged(store, FiberStashed)) == 3
    assert [event.outcome for event in await logged(store, FiberEnded)] == ["done"]


async def test_a_fiber_begins_in_the_log_before_its_code_and_ends_there_before_its_result() -> None:
    store = MemoryLog()
    async with working(store) as agent:

        async def look() -> None:
            assert len(of_kind(await read_all(store, AGENT), FiberStarted)) == 1

        await agent.run_fiber("look", look)
        assert len(of_kind(await read_all(store, AGENT), FiberEnded)) == 1


async def test_a_function_may_be_plain_may_take_nothing_and_knows_its_agent() -> None:
    async with working(MemoryLog()) as agent:
        assert await agent.run_fiber("plain", lambda: 5) == 5
        assert await agent.run_fiber("name", lambda fiber: fiber.name) == "name"
        assert await agent.run_fiber("who", get_current_agent) is agent
        with pytest.raises(UsageError, match="give a function"):
            await agent.run_fiber("called", 5)  # type: ignore[arg-type]


async def test_a_fiber_that_fails_raises_for_waiters_and_shows_as_failed() -> None:
    async def fail() -> None:
        raise ValueError("no luck")

    async with working(MemoryLog()) as agent:
        with pytest.raises(ValueError, match="no luck"):
            await agent.run_fiber("fail", fail)
        alone = await agent.fibers.start("fail", fail)
        await quiet()
        found = await agent.fibers.get(alone)
        assert found is not None and (found.status, found.detail) == ("failed", "ValueError: no luck")
        assert len(await agent.fibers.list(status="failed")) == 2
        assert await agent.fibers.list("other") == []
        assert await agent.fibers.get("nobody") is None


async def test_a_fiber_whose_own_code_cancels_itself_has_failed() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    async with working(MemoryLog()) as agent:
        with pytest.raises(RuntimeError, match="cancelled by its own code"):
            await agent.run_fiber("give up", give_up)
        assert (await agent.fibers.list())[0].status == "failed"


async def test_a_fiber_continues_when_its_waiter_is_cancelled() -> None:
    async with working(MemoryLog()) as agent:
        waiting = asyncio.create_task(agent.run_fiber("count", agent.count))
        await until(lambda: (1, 2) in Worker.heard)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        (fiber,) = await agent.fibers.list(status="running")
        Worker.gate.set()
        assert await agent.run_fiber("count", agent.count, fiber_id=fiber.id) == [0, 1, 2]
        assert Worker.heard == [(1, 0), (1, 1), (1, 2)]


async def test_an_id_of_the_callers_own_makes_it_happen_once() -> None:
    async with working(MemoryLog()) as agent:
        assert await agent.fibers.start("count", agent.count, fiber_id="import-7") == "import-7"
        assert await agent.fibers.start("count", agent.count, fiber_id="import-7") == "import-7"
        await until(lambda: (1, 2) in Worker.heard)
        Worker.gate.set()
        assert await agent.run_fiber("count", agent.count, fiber_id="import-7") == [0, 1, 2]
        await agent.fibers.start("count", agent.count, fiber_id="import-7")
        with pytest.raises(Rejected, match=r"has ended \(done\). Use another id"):
            await agent.run_fiber("count", agent.count, fiber_id="import-7")
        await quiet()
        assert Worker.heard == [(1, 0), (1, 1), (1, 2)]


async def test_a_cancelled_fiber_stops_and_says_so_once() -> None:
    store = MemoryLog()
    async with working(store) as agent:
        stopped = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)  # cleaning up may take a while, whatever else is committed meanwhile
                await agent.set_state("cleaned up")
                stopped.set()

        waiting = asyncio.create_task(agent.run_fiber("work", work, fiber_id="w"))
        await quiet()
        assert await agent.fibers.cancel("w", "enough") is True
        await agent.set_state("else")
        assert await agent.fibers.cancel("w") is False
        with pytest.raises(FiberCancelled, match="was cancelled"):
            await waiting
        await asyncio.wait_for(stopped.wait(), PATIENCE)
        assert agent.state == "cleaned up"
        found = await agent.fibers.get("w")
        assert found is not None and (found.status, found.detail) == ("cancelled", "enough")
    assert len(await logged(store, FiberEnded)) == 1


async def test_a_fiber_that_waits_for_itself_is_told_so() -> None:
    async with working(MemoryLog()) as agent:

        async def inside(fiber: FiberContext) -> Any:
            return await agent.run_fiber("self", inside, fiber_id=fiber.id)

        with pytest.raises(UsageError, match="it would wait for itself"):
            await agent.run_fiber("self", inside)


async def test_a_fiber_started_in_a_turn_may_start_another_turn() -> None:
    answered = asyncio.Event()

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Any) -> str:
            if len(self.messages) == 1:
                await self.fibers.start("ask more", self.more)
            return "fine"

        async def more(self) -> None:
            await self.save_messages([{"id": "u2", "role": "user", "parts": []}])
            answered.set()

    directory = Directory(MemoryLog(), lambda agent: responder_for(Chat, AgentRuntime(directory, agent)))
    async with directory:
        chat = Chat(AgentRuntime(directory, AgentId("chat/ann")))
        await chat.save_messages([{"id": "u1", "role": "user", "parts": []}])
        await asyncio.wait_for(answered.wait(), PATIENCE)
        assert [message.role for message in chat.messages] == ["user", "assistant", "user", "assistant"]


# -- after a crash -----------------------------------------------------------------------------------------------------


async def continue_it(agent: Worker, ctx: FiberContext) -> None:
    Worker.heard.append(await agent.run_fiber(ctx.name, agent.count))


async def start_it(agent: Worker, ctx: FiberContext) -> None:
    await agent.fibers.start(ctx.name, agent.count)


async def think(agent: Worker, ctx: FiberContext) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("hook", [continue_it, start_it])
async def test_a_fiber_is_handed_back_with_its_checkpoint_and_goes_on_under_its_id(hook: Hook) -> None:
    store = MemoryLog()
    async with doomed(store) as agent:
        fiber = await agent.fibers.start("count", agent.count)
        await until(lambda: (1, 2) in Worker.heard)
    Worker.hook, Worker.heard = hook, []
    Worker.gate.set()
    async with working(store) as agent:  # no request loads the agent: the fiber that it left wakes it
        await until(lambda: (2, 2) in Worker.heard)
        await quiet()
        assert Worker.heard[:2] == [("recovered", fiber, "count", [0, 1], 2), (2, 2)]
        (found,) = await agent.fibers.list()
        assert (found.id, found.status, found.snapshot, found.attempts) == (fiber, "done", [0, 1, 2], 2)
        assert len(await agent.fibers.list(status="running")) == 0
    assert [(event.fiber, event.attempt) for event in await logged(store, FiberStarted)] == [(fiber, 1), (fiber, 2)]


async def test_a_fiber_that_a_client_starts_again_while_it_is_handed_back_goes_on() -> None:
    store = MemoryLog()
    async with doomed(store) as agent:
        await agent.fibers.start("count", agent.count, fiber_id="f")
        await until(lambda: (1, 2) in Worker.heard)
    Worker.gate.set()
    started: list[asyncio.Task[str]] = []

    async def both(agent: Worker, ctx: FiberContext) -> None:
        started.append(asyncio.create_task(agent.fibers.start("count", agent.count, fiber_id="f")))
        await asyncio.sleep(0)
        await start_it(agent, ctx)

    Worker.hook = both
    async with working(store) as agent:
        await until(lambda: started and started[0].done())
        await quiet()
        assert ((await agent.fibers.list())[0].status, Worker.heard.count((2, 2))) == ("done", 1)


async def test_a_fiber_that_is_not_continued_ends_as_interrupted() -> None:
    store = MemoryLog()
    async with working(store) as agent:
        await agent.fibers.start("count", agent.count)
        await until(lambda: (1, 2) in Worker.heard)
    async with working(store) as agent:
        await until(lambda: len(Worker.heard) == 4)
        await quiet()
        (found,) = await agent.fibers.list()
        assert (found.status, found.detail) == ("interrupted", "it was not continued")
    async with working(store):
        await quiet()
    assert len(Worker.heard) == 4


async def test_a_fiber_that_ends_every_process_is_set_aside() -> None:
    store = MemoryLog()
    Worker.hook = start_it
    for attempt in range(1, MAX_ATTEMPTS + 1):
        async with doomed(store) as agent:
            if attempt == 1:
                await agent.fibers.start("count", agent.count)
            await until(lambda attempt=attempt: (attempt, 2) in Worker.heard)
    async with working(store) as agent:
        await quiet()
        (found,) = await agent.fibers.list()
        assert (found.status, found.attempts) == ("set-aside", MAX_ATTEMPTS)
    assert (MAX_ATTEMPTS + 1, 2) not in Worker.heard


async def test_a_beginning_that_is_being_committed_at_a_stop_counts_for_nothing() -> None:
    store, Worker.hook = SlowDisk(), start_it
    for life in range(3):  # begun, and then handed back twice
        store.gate = Gate()
        async with working(store) as agent:
            if not life:
                beginning = asyncio.create_task(agent.fibers.start("count", agent.count))
            await store.gate.reached.wait()
            asyncio.create_task(quiet()).add_done_callback(lambda _: store.gate.open())  # while it is being closed
    with pytest.raises(AgentStopped):
        await beginning
    async with working(store) as agent:
        await until(lambda: Worker.heard)
        assert [record.attempts for record in await agent.fibers.list()] == [1]


async def test_a_stop_in_good_order_counts_for_nothing() -> None:
    store = MemoryLog()
    Worker.hook = start_it
    for stop in range(2 * MAX_ATTEMPTS):
        async with working(store) as agent:
            if not stop:
                await agent.fibers.start("count", agent.count)
            await until(lambda stop=stop: Worker.heard.count((1, 2)) == stop + 1)
    Worker.hook, Worker.heard = think, []  # now it is stopped while it is being handed back
    for stop in range(2 * MAX_ATTEMPTS):
        async with working(store):
            await until(lambda stop=stop: len(Worker.heard) == stop + 1)
    Worker.hook = start_it
    Worker.gate.set()
    async with working(store) as agent:
        await quiet()
        (found,) = await agent.fibers.list()
        assert (found.status, found.attempts) == ("done", 1)


async def test_a_hook_that_raises_is_asked_again_after_a_pause_and_not_for_ever() -> None:
    store, clock = MemoryLog(), ManualClock()
    async with doomed(store, clock) as agent:
        await agent.fibers.start("count", agent.count)
        await until(lambda: (1, 2) in Worker.heard)

    async def fail(agent: Worker, ctx: FiberContext) -> None:
        raise RuntimeError("not yet")

    Worker.hook, Worker.heard = fail, []
    async with working(store, clock) as agent:
        for asked in range(1, MAX_ATTEMPTS):
            await until(lambda asked=asked: len(Worker.heard) == asked)
            await quiet()
            assert len(Worker.heard) == asked
            clock.advance(30)
        await quiet()
        (found,) = await agent.fibers.list()
        assert (found.status, len(Worker.heard)) == ("set-aside", MAX_ATTEMPTS - 1)


async def test_a_fiber_can_be_cancelled_while_it_is_handed_back() -> None:
    store = MemoryLog()
    async with working(store) as agent:
        fiber = await agent.fibers.start("count", agent.count)
        await until(lambda: (1, 2) in Worker.heard)

    Worker.hook = think
    async with working(store) as agent:
        await until(lambda: len(Worker.heard) == 4)
        assert await agent.fibers.cancel(fiber)
        await quiet()
        assert (await agent.fibers.list())[0].status == "cancelled"


async def test_jobs_fibers_and_outsiders_wait_until_the_agent_has_started() -> None:
    class Late(Worker):
        started: ClassVar[asyncio.Event] = asyncio.Event()

        async def on_start(self) -> None:
            await self.set_state("starting")
            self.heard.append(f"state {self.state}")
            await type(self).started.wait()
            self.heard.append("started")

        async def job(self, payload: Any) -> None:
            self.heard.append("job")

    store = MemoryLog()
    async with doomed(store) as agent:
        await agent.fibers.start("count", agent.count)
        await until(lambda: (1, 2) in Worker.heard)
        await agent._runtime.jobs.add("j", "queue", "job", 0)  # type: ignore[arg-type]
    Worker.heard.clear()
    directory = Directory(store, lambda agent: responder_for(Late, AgentRuntime(directory, agent)), clock=ManualClock())
    opening = asyncio.create_task(directory.open())
    await until(lambda: Worker.heard)
    waiting = asyncio.create_task(Late(AgentRuntime(directory, AGENT)).jobs.list(queued=True))
    await quiet()
    assert (Worker.heard, waiting.done()) == (["state starting"], False)
    Late.started.set()
    await opening
    await waiting
    await until(lambda: len(Worker.heard) == 4)
    assert Worker.heard[1] == "started"
    assert sorted(map(str, Worker.heard[2:]))[1] == "job"
    await directory.aclose()


async def test_agents_that_load_each_other_as_they_start_do_not_wait_for_each_other() -> None:
    class Parent(Agent):
        async def on_start(self) -> None:
            if "/sub/" not in self._runtime.agent:
                await Parent(AgentRuntime(directory, AgentId(f"{AGENT}/sub/worker/kid"))).set_state("kid")
            else:
                await Parent(AgentRuntime(directory, AGENT)).set_state("told by the kid")

    directory = Directory(MemoryLog(), lambda agent: responder_for(Parent, AgentRuntime(directory, agent)))
    async with directory, asyncio.timeout(PATIENCE):
        parent = Parent(AgentRuntime(directory, AGENT))
        await parent._runtime.load()
        assert parent.state == "told by the kid"


class Unreliable(MemoryLog):
    is_full = False

    def commit(self, batch: Batch) -> None:
        if self.is_full:
            raise LogUnavailable("unable to append; the disk is full")
        super().commit(batch)


async def test_a_fiber_whose_agent_lost_its_store_is_handed_back_in_the_same_process() -> None:
    store, clock = Unreliable(), ManualClock()
    Worker.hook = start_it
    async with working(store, clock) as agent:
        waiting = asyncio.create_task(agent.run_fiber("count", agent.count))
        await until(lambda: (1, 2) in Worker.heard)
        store.is_full = True
        with pytest.raises(LogUnavailable):
            await agent.set_state(1)
        with pytest.raises(AgentStopped):
            await waiting
        store.is_full = False
        Worker.gate.set()
        clock.advance(1)
        await until(lambda: (2, 2) in Worker.heard)
        await quiet()
        assert (await agent.fibers.list())[0].status == "done"


# -- staying loaded ------------------------------------------------------------------------------------------------


async def unloads(clock: ManualClock, agent: Worker) -> bool:
    """Tell whether the agent is unloaded once it was idle for long."""
    for _ in range(4):
        clock.advance(100)
        await quiet(20)
    directory = agent._runtime._directory  # type: ignore[attr-defined]
    return directory.peek(AGENT) is None


async def test_a_fiber_keeps_its_agent_loaded() -> None:
    clock = ManualClock()
    async with working(MemoryLog(), clock) as agent:
        await agent.fibers.start("count", agent.count)
        assert not await unloads(clock, agent)
        Worker.gate.set()
        await quiet()
        assert await unloads(clock, agent)


async def test_keep_alive_keeps_the_agent_loaded_as_long_as_it_is_held() -> None:
    clock = ManualClock()
    async with working(MemoryLog(), clock) as agent:
        async with agent.keep_alive():
            assert not await unloads(clock, agent)
        assert await unloads(clock, agent)
        release, other = await agent.keep_alive(), await agent.keep_alive()
        release()
        release()
        assert not await unloads(clock, agent)
        other()
        assert await unloads(clock, agent)
