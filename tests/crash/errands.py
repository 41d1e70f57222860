"""The crash script of what is no turn: queued and scheduled jobs, fibers, states, and processes that die under them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from everyword.agents import Agent, Every
from everyword.agents.chat_responder import responder_for
from everyword.agents.fibers import FiberContext
from everyword.events import Event, FiberEnded, FiberStarted, JobAdded, JobEnded, JobStarted, StateSet, decode_event
from everyword.ids import AgentId, JobId
from everyword.log.base import LogStore
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, ManualClock
from tests.crash.proofs import read_all
from tests.crash.world import ROUNDS, Crash, OnCrash
from tests.runtime.kit import kill_everything
from tests.timeouts import PATIENCE

AGENT = AgentId("errands/ann")
TICK = 25
"""How often other tasks run before the clock moves on."""


class World:
    """What outlives every process: the clock, and what was done to the world outside."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.effects: list[tuple[int, str]] = []
        """(number of the process, what was done)"""
        self.repeated: list[str] = []
        """What was done although the log said already that it was done."""
        self.processes = 0
        self.appends: list[int] = []
        self.store: LogStore | None = None

    async def log(self) -> list[Event]:
        assert self.store is not None
        return [decode_event(stored.body) for stored in await read_all(self.store, AGENT)]

    async def do(self, what: str) -> None:
        """Change the world outside, and note whether the log knew of it."""
        self.effects.append((self.processes, what))
        if what in done_of(await self.log()) and not what.startswith("every"):
            self.repeated.append(what)


def payloads(log: Sequence[Event]) -> dict[JobId, str]:
    return {event.job: msgspec.json.decode(bytes(event.payload)) for event in log if isinstance(event, JobAdded)}


def done_of(log: Sequence[Event]) -> list[str]:
    """Return what the log says was done, in order, as often as it says so."""
    names = payloads(log)
    return [names[event.job] for event in log if isinstance(event, JobEnded) and event.outcome == "done"]


class Errands(Agent):
    """Does what it is told; what it does is in the world."""

    world: World

    async def work(self, what: str) -> None:
        await self.world.do(what)

    async def flaky(self, what: str) -> None:
        await self.world.do(what)
        if sum(1 for _, each in self.world.effects if each == what) == 1:
            raise RuntimeError("not yet")

    async def chain(self, what: str) -> None:
        await self.set_state({"chained": what})
        await self.world.do(what)
        if "second" not in payloads(await self.world.log()).values():
            await self.queue("work", "second")

    async def hang(self, what: str) -> None:
        await asyncio.Event().wait()

    async def count(self, fiber: FiberContext) -> int:
        for number in range(fiber.snapshot or 0, 3):
            await self.world.do(f"{fiber.id}-{number}")
            await fiber.stash(number + 1)
        await self.set_state({"counted": fiber.id})
        return 3

    async def idle(self) -> None:
        await asyncio.Event().wait()

    async def on_fiber_recovered(self, ctx: FiberContext) -> None:
        await self.fibers.start(ctx.name, self.count if ctx.name == "count" else self.idle)


class Person:
    """A client that sends each request once: what is in the log already is not requested again."""

    def __init__(self, world: World, agent: Errands) -> None:
        self.world, self.agent = world, agent

    async def until(self, fact: Callable[[list[Event]], Any]) -> None:
        """Wait for a fact of the log, and let time pass meanwhile."""
        async with asyncio.timeout(PATIENCE):
            while not fact(await self.world.log()):
                for _ in range(TICK):
                    await asyncio.sleep(0)
                self.world.clock.advance(0.5)

    async def once(self, what: str, ask: Callable[[], Awaitable[Any]]) -> None:
        if what not in payloads(await self.world.log()).values():
            await ask()

    async def queue(self, method: str, *whats: str) -> None:
        for what in whats:
            await self.once(what, lambda what=what: self.agent.queue(method, what))  # type: ignore[misc]

    async def done(self, *whats: str) -> None:
        await self.until(lambda log: set(whats) <= set(done_of(log)))

    async def set_state(self, value: Any) -> None:
        wanted = msgspec.json.encode(value)
        if not any(isinstance(each, StateSet) and bytes(each.state) == wanted for each in await self.world.log()):
            await self.agent.set_state(value)


# -- the script: every step may be run again after the process died in the middle of it ----------------------------


async def _queue(person: Person) -> None:
    await person.queue("work", "a", "b", "c")
    await person.done("a", "b", "c")


async def _retry(person: Person) -> None:
    await person.queue("flaky", "flaky")
    await person.done("flaky")


async def _chain(person: Person) -> None:
    await person.queue("chain", "first")
    await person.done("first", "second")


async def _schedule(person: Person) -> None:
    await person.once("later", lambda: person.agent.schedule(2, "work", "later"))
    await person.done("later")


async def _interval(person: Person) -> None:
    await person.once("every", lambda: person.agent.schedule(Every(seconds=1), "work", "every"))
    await person.until(lambda log: done_of(log).count("every") >= 2)
    for plan in await person.agent.jobs.list("work", queued=False):
        await person.agent.cancel_schedule(plan.id)


async def _cancel(person: Person) -> None:
    await person.queue("hang", "hang")
    (job,) = [job for job, what in payloads(await person.world.log()).items() if what == "hang"]
    await person.until(lambda log: any(isinstance(each, JobStarted) and each.job == job for each in log))
    await person.agent.jobs.cancel(job)
    await person.until(lambda log: any(isinstance(each, JobEnded) and each.job == job for each in log))


async def _fiber(person: Person) -> None:
    await person.agent.fibers.start("count", person.agent.count, fiber_id="f1")
    await person.until(lambda log: any(isinstance(each, FiberEnded) and each.fiber == "f1" for each in log))


async def _cancelled_fiber(person: Person) -> None:
    await person.agent.fibers.start("idle", person.agent.idle, fiber_id="f2")
    await person.until(lambda log: any(isinstance(each, FiberStarted) and each.fiber == "f2" for each in log))
    await person.agent.fibers.cancel("f2", "enough")


Step = Callable[[Person], Awaitable[None]]
STEPS: Sequence[Step] = [
    lambda person: person.set_state({"begun": True}),
    _queue,
    _retry,
    _schedule,
    _fiber,
    _chain,
    _interval,
    _cancel,
    _cancelled_fiber,
    lambda person: person.set_state({"begun": False}),
]


async def play(world: World, store: Callable[[], LogStore], crashes: Sequence[Crash], on_crash: OnCrash) -> None:
    """Play the script to its end through processes that die where `crashes` say."""
    steps = deque(STEPS)
    for crash in [*crashes, None]:
        kept = world.store = store()
        log = CrashingLog(kept) if crash is None else CrashingLog(kept, crash.at, crash.when)
        world.processes += 1
        life = asyncio.create_task(_live(world, log, steps))
        death = asyncio.create_task(log.crashed.wait())
        await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
        world.appends.append(log.appends)
        if life.done():
            death.cancel()
            return await life
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        await kill_everything()
        await on_crash(kept)
        await kept.aclose()
    return None


async def _live(world: World, log: CrashingLog, steps: deque[Step]) -> None:
    cls = type("Errands", (Errands,), {"world": world})
    directory = Directory(
        log,
        lambda agent: responder_for(cls, AgentRuntime(directory, agent)),
        clock=world.clock,
        settings=Settings(grace=0.0),
    )
    await directory.open()
    async with directory.attach(AGENT) as loaded:
        agent = loaded.responder.agent  # type: ignore[attr-defined]
        person = Person(world, agent)
        while steps:
            await steps[0](person)
            steps.popleft()
    await directory.aclose()
