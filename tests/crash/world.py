"""The crash script: people who ask, wait for facts and ask again, and the processes that die under them."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from everyword.agents import responder_for
from everyword.core.commands import AnswerToolCall, CancelTurns, ClearConversation
from everyword.events import (
    CallAnswered,
    ChatCleared,
    Chunk,
    Event,
    HookDone,
    Outcome,
    TurnAccepted,
    TurnEnded,
    encode_event,
    turn_of,
)
from everyword.ids import AgentId, CallId, RequestId, Seq, TurnId
from everyword.log.base import LogStore
from everyword.messages.tool_calls import ApprovalAnswer, CallAnswer, OutputAnswer
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.api import Responder, TurnResult
from everyword.runtime.directory import Directory, LoadedAgent
from everyword.testing import CrashingLog, ManualClock
from tests.agents.bases import answering
from tests.crash.answers import Model, Speaker
from tests.runtime.kit import AGENT, PATIENCE, QUICK, kill_everything, submit, user

T = TypeVar("T")

ROUNDS = 20
"""How often other tasks run between the crash and the end, so that an event that is shown too early is seen."""


@dataclass(frozen=True)
class Crash:
    """Where a process dies: at its append number `at`, before or after the commit."""

    at: int
    when: Literal["before", "after"]


class World:
    """What outlives every process: the clock, what people saw, what they allowed, and what hooks were told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.seen: list[tuple[Seq, Event]] = []
        self.told: list[tuple[int, TurnResult]] = []
        """(number of the process, what its response hook was told)"""
        self.processes = 0
        self.appends: list[int] = []
        """How many appends each process asked for."""
        self._holds: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._turns: dict[str, TurnId] = {}
        self._facts: set[tuple[type[Event], TurnId | CallId | None]] = set()

    def hold(self, name: str) -> asyncio.Event:
        return self._holds[name]

    @property
    def cursor(self) -> Seq:
        return self.seen[-1][0] if self.seen else Seq(0)

    def note(self, seq: Seq, event: Event) -> None:
        """Remember what a client was shown."""
        self.seen.append((seq, event))
        if isinstance(event, TurnAccepted):
            self._turns[event.request] = event.turn
        self._facts.add((type(event), event.call if isinstance(event, CallAnswered) else turn_of(event)))
        if isinstance(event, TurnEnded) and event.outcome is Outcome.SKIPPED:
            self._facts.add((HookDone, event.turn))  # there is no hook for a skipped turn

    def events(self, kind: type[T]) -> list[T]:
        return [event for _, event in self.seen if isinstance(event, kind)]

    def has(self, kind: type[Event], of: str | None = None) -> bool:
        """Whether such an event was seen: of the request's turn, of a call, or at all."""
        subject = CallId(of) if kind is CallAnswered and of is not None else self._turns.get(of or "")
        return (kind, subject) in self._facts

    def said(self, request: str, words: bytes) -> bool:
        turn = self._turns.get(request)
        return any(event.turn == turn and words in bytes(event.body) for event in self.events(Chunk))

    def asked_for(self, call: str) -> str:
        """Return the id under which a call asks people: another one if its first was cut off."""
        chunks = (bytes(event.body) for event in self.events(Chunk))
        found = [msgspec.json.decode(body).get("toolCallId", "") for body in chunks if b"toolCallId" in body]
        return next((each for each in reversed(found) if each.rstrip("'") == call), call)

    def is_over(self, request: str) -> bool:
        """Whether the turn has ended and its hook has run."""
        return self.has(TurnEnded, request) and self.has(HookDone, request)

    def note_response(self, result: TurnResult) -> None:
        self.told.append((self.processes, result))


class Person:
    """A client, connected to one process: sends commands, reads by cursor, waits for facts."""

    def __init__(self, world: World, loaded: LoadedAgent) -> None:
        self.world, self._actor = world, loaded.actor
        self._subscription = loaded.subscribe(world.cursor)

    async def until(self, fact: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not fact():
                page = await self._subscription.next()
                for committed in page:
                    self.world.note(committed.seq, committed.event)

    async def catch_up(self) -> None:
        await self.until(lambda: self.world.cursor == self._subscription.head)

    async def submit(self, request: str, *words: str, message: str | None = None, trigger: str | None = None) -> None:
        more = {} if trigger is None else {"trigger": trigger}
        asked = user(message or f"u-{request}", " ".join(words) or request)
        await self._actor.ask(submit(request, asked, **more))
        await self.until(lambda: self.world.has(TurnAccepted, request))

    async def over(self, *requests: str) -> None:
        await self.until(lambda: all(map(self.world.is_over, requests)))

    async def ask(self, request: str, *words: str, **more: str) -> None:
        await self.submit(request, *words, **more)
        await self.over(request)

    async def cancel(self, request: str) -> None:
        await self._actor.insist(CancelTurns(RequestId(request), by="ann"))

    async def answer(self, call: str, answer: CallAnswer, continuation: str) -> None:
        call = self.world.asked_for(call)
        await self._actor.ask(AnswerToolCall(CallId(call), answer, RequestId(continuation)))
        await self.until(lambda: self.world.has(CallAnswered, call))
        self.world.clock.advance(0.05)

    async def clear(self) -> None:
        await self.catch_up()  # a clear has no id: whether it happened must be read
        if not self.world.has(ChatCleared):
            await self._actor.insist(ClearConversation("s1"))
        await self.until(lambda: self.world.has(ChatCleared))

    def close(self) -> None:
        self._subscription.close()


# -- the script: every step may be run again after the process died in the middle of it ----------------------------


async def _client_tool(person: Person) -> None:
    await person.ask("locate")
    await person.answer("k-locate", OutputAnswer({"lat": 54}), "locate-more")
    await person.over("locate-more")


async def _approve(person: Person) -> None:
    await person.ask("pay")
    await person.answer("k-pay", ApprovalAnswer(True), "pay-more")
    await person.over("pay-more")


async def _deny(person: Person) -> None:
    await person.ask("wipe")
    await person.answer("k-wipe", ApprovalAnswer(False, "no"), "wipe-more")
    await person.over("wipe-more")


async def _answer_mid_stream(person: Person) -> None:
    await person.submit("browse")
    await person.until(lambda: person.world.said("browse", b"k-browse"))
    await person.answer("k-browse", OutputAnswer("a page"), "browse-more")
    person.world.hold("browse").set()
    await person.over("browse", "browse-more")


async def _cancel_mid_stream(person: Person) -> None:
    await person.submit("cancelled")
    await person.until(lambda: person.world.said("cancelled", b"So far "))
    await person.cancel("cancelled")
    await person.over("cancelled")


async def _cancel_while_queued(person: Person) -> None:
    await person.submit("slow")
    await person.submit("never")
    await person.cancel("never")
    await person.over("never")
    person.world.hold("slow").set()
    await person.over("slow")


async def _clear_in_the_middle(person: Person) -> None:
    await person.submit("cleared")
    await person.until(lambda: person.world.said("cleared", b"Gone "))
    await person.submit("waiting")
    await person.clear()
    await person.over("cleared", "waiting")


async def _queue(person: Person) -> None:
    for request in ("first", "second", "third"):
        await person.submit(request)
    person.world.hold("queue").set()
    await person.over("first", "second", "third")


Step = Callable[[Person], Awaitable[None]]
SCENES: dict[str, Sequence[Step]] = {
    "tools": [
        lambda person: person.ask("text", "what colour?"),
        lambda person: person.ask("tool"),
        _client_tool,
    ],
    "approvals": [_approve, _deny],
    "mid-stream": [_answer_mid_stream, _cancel_mid_stream],
    "errors": [
        lambda person: person.ask("thrown"),
        lambda person: person.ask("in-band"),
        lambda person: person.ask("data"),
    ],
    "versions": [
        lambda person: person.ask("text", "what colour?"),
        lambda person: person.ask("again", "what colour?", message="u-text", trigger="regenerate-message"),
        lambda person: person.ask("edited", "what colour is the sea?", message="u-text"),
    ],
    "stop": [_cancel_mid_stream, lambda person: person.ask("text", "what colour?")],
    "clear": [lambda person: person.ask("text", "what colour?"), _clear_in_the_middle],
    "queue": [_cancel_while_queued, _queue],
}
SPOKEN = ("errors", "versions", "stop", "clear", "queue")
"""Scenes without calls: both base classes play them; turns with tools are the clerks'."""
STEPS: Sequence[Step] = [
    *SCENES["tools"],
    *SCENES["approvals"],
    *SCENES["mid-stream"],
    *SCENES["errors"],
    *SCENES["versions"][1:],
    *SCENES["clear"][1:],
    *SCENES["queue"],
]
"""All of it, one after the other."""


def scripted(world: World, log: LogStore) -> Directory:
    """Start a process whose turns are answered below every base class."""
    model = Model(world.hold, world.note_response)
    model.directory = Directory(log, model, clock=world.clock, settings=QUICK)
    return model.directory


def speaking(base: str) -> Process:
    """Return what starts a process that serves agents of one of the base classes."""
    speaker = answering(base, Speaker)

    def process(world: World, log: LogStore) -> Directory:
        def responder(agent: AgentId) -> Responder:
            made = responder_for(speaker, AgentRuntime(directory, agent))
            made.agent.world = world

            async def on_response(result: TurnResult) -> None:
                world.note_response(result)

            made.on_response = on_response
            return made

        directory = Directory(log, responder, clock=world.clock, settings=QUICK)
        return directory

    return process


async def play(
    world: World,
    store: Callable[[], LogStore],
    crashes: Sequence[Crash],
    on_crash: OnCrash,
    *,
    script: Sequence[Step] = STEPS,
    process: Process = scripted,
) -> None:
    """Play the script to its end through processes that die where `crashes` say.

    `store` gives what the next process opens. `on_crash` may look at the store of a dead one, which is still open.
    """
    steps = deque(script)
    for crash in [*crashes, None]:
        kept = store()
        log = CrashingLog(kept) if crash is None else CrashingLog(kept, crash.at, crash.when)
        world.processes += 1
        is_over = await _live_and_die(world, log, steps, process)
        world.appends.append(log.appends)
        if is_over:
            return
        await on_crash(kept)
        await kept.aclose()


OnCrash = Callable[[LogStore], Awaitable[None]]
Process = Callable[[World, LogStore], Directory]
"""What runs over a store while one process lives."""


async def _live_and_die(world: World, log: CrashingLog, steps: deque[Step], process: Process) -> bool:
    """Run one process until the script is over (True) or the process is dead (False)."""
    life = asyncio.create_task(_live(world, log, steps, process))
    death = asyncio.create_task(log.crashed.wait())
    await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
    if life.done():
        death.cancel()
        await life
        return True
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
    await kill_everything()
    return False


async def _live(world: World, log: CrashingLog, steps: deque[Step], process: Process) -> None:
    directory = process(world, log)
    await directory.open()
    async with directory.attach(AGENT) as loaded:
        person = Person(world, loaded)
        while steps:
            await steps[0](person)
            steps.popleft()
        await person.catch_up()
        person.close()
    await directory.aclose()


def bodies(world: World) -> list[tuple[Seq, bytes]]:
    return [(seq, encode_event(event)) for seq, event in world.seen]
