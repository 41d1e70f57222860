"""What survives a crash of the server: the log, the clock, the tabs, and a record of all events."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from ...core.commands import Policy, PolicyName
from ...core.state import Rules
from ...events import Chunk, Event, MessagesPut, TurnAccepted, TurnEnded, decode_event
from ...ids import AgentId, Millis, TurnId
from ...log.base import Batch
from ...log.memory import MemoryLog
from ...runtime.api import TurnResult
from ...runtime.directory import Settings
from ...server import websocket
from ..clock import ManualClock
from .answers import PAY, Model
from .faulty_log import AppendOutcome, FaultyLog
from .network import Link
from .server_code import LogReader, ServerCode
from .server_run import ServerRun
from .tabs import SimulatedTab

__all__ = ["Faults", "RunEnvironment", "World"]

JsonObject = dict[str, Any]

POLICIES: tuple[PolicyName, ...] = ("queue", "latest", "merge", "drop", "debounce")


@dataclass(slots=True)
class Faults:
    """Probabilities of faults."""

    crash: float = 0.0
    fail: float = 0.0
    read: float = 0.0

    @staticmethod
    def drawn(chance: Random) -> Faults:
        if chance.random() < 0.4:
            return Faults()
        return Faults(chance.choice((0, 0.01, 0.04)), chance.choice((0, 0, 0.03)), chance.choice((0, 0, 0, 0.01)))


@dataclass(slots=True)
class World:
    """The whole simulated world of one seed. `trace` records its history, line by line."""

    seed: int
    chance: Random
    kept: MemoryLog = field(default_factory=MemoryLog)
    clock: ManualClock = field(default_factory=ManualClock)
    trace: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """(name of the check, what it found)"""
    tabs: list[SimulatedTab] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    server: ServerRun | None = None
    server_runs: list[ServerRun] = field(default_factory=list)
    disturbances: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    told: Counter[tuple[str, TurnId]] = field(default_factory=Counter)
    chunks: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Committed chunks by agent, request and index."""
    ends: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """Outcomes of the accepted requests, by agent and request; None while they run."""
    placed: set[tuple[str, str]] = field(default_factory=set)
    """Ids of messages that were ever committed, with their agents."""
    faults: Faults = field(default_factory=Faults)
    rules: Rules = field(default_factory=Rules)
    retention: int = 24 * 60 * 60 * 1000
    log_readers: list[LogReader] = field(default_factory=list)
    server_code: ServerCode | None = None
    gates_stay_open: bool = False
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    _requests: dict[tuple[str, TurnId], str] = field(default_factory=dict)
    _links: int = 0

    @staticmethod
    def drawn(seed: int, chance: Random) -> World:
        """Draw a world: agents, tabs, rules and faults."""
        world = World(seed, chance)
        world.faults = Faults.drawn(chance)
        policy = Policy(chance.choice(POLICIES))
        if policy.name == "queue" and seed % 2:
            policy = Policy("steer")
        cap = chance.choice((None, None, None, 4))
        sanitize = chance.choices((_as_it_is, _redacted, _refused), (8, 1, 1))[0]
        world.rules = Rules(
            has_response_hook=True,
            policy=policy,
            max_persisted_messages=cap,
            sanitize=sanitize,
            server_tools=frozenset({PAY} if seed % 7 in (2, 3, 6) else ()),
        )
        world.agents = [f"chat/{number}" for number in range(chance.choice((1, 1, 1, 2)))]
        world.retention = chance.choice((40_000, world.retention, world.retention))
        world.server_code = ServerCode(chance) if chance.random() < 0.3 else None
        world.log_readers = [LogReader(agent, chance) for agent in world.agents if chance.random() < 0.4]
        for number in range(chance.choice((1, 2, 2, 3))):
            world.tabs.append(SimulatedTab(f"t{number}", chance.choice(world.agents), chance))
        world.note(f"{policy.name}, at most {cap} messages, {sanitize.__name__}, {world.faults}")
        return world

    def note(self, what: str) -> None:
        self.trace.append(f"{self.clock.now() - 1_700_000_000_000:>7} {what}")

    def report_problem(self, check: str, what: str) -> None:
        self.note(f"PROBLEM {check}: {what}")
        self.problems.append((check, what))

    # -- the server --------------------------------------------------------------------------------------------------

    async def start_server(self) -> None:
        assert self.server is None
        await self.kept.aclose()
        number = len(self.server_runs) + 1
        self.note(f"server {number} starts")
        # A new server counts its sockets from one again.
        websocket._serials = itertools.count(1)
        run: ServerRun

        def may_read() -> bool:
            if self.chance.random() >= self.faults.read:
                return True
            self.disturb("read fails")
            return False

        store = FaultyLog(
            self.kept,
            self.chance,
            outcome=self._append_outcome,
            may_read=may_read,
            on_commit=self._committed,
            on_crash=lambda: self._crashed(run),
        )
        models: dict[AgentId, Model] = {}

        def responder(agent: AgentId) -> Model:
            return models.setdefault(agent, Model(RunEnvironment(self, run_box), self.seed, self.rules))

        run_box: list[ServerRun] = []
        run = ServerRun(number, store, responder, self.clock, Settings(grace=0, retention=self.retention))
        run_box.append(run)
        self.server = run
        self.server_runs.append(run)

    def disturb(self, what: str) -> None:
        self.disturbances += 1
        self.note(what)

    def _append_outcome(self, batch: Batch) -> AppendOutcome:
        draw = self.chance.random()
        if draw < self.faults.crash:
            return "crash-before" if self.chance.random() < 0.5 else "crash-after"
        if draw < self.faults.crash + self.faults.fail:
            self.disturb("append fails")
            return "fail"
        return "commit"

    def _crashed(self, run: ServerRun) -> None:
        self.disturb(f"server {run.number} crashes")
        run.die()
        for link in run.links:
            link.lose_server(self.chance.randrange(len(link.down) + 1))

    def _committed(self, batch: Batch) -> None:
        for seq, entry in enumerate(batch.entries, batch.first):
            self.remember(batch.agent, decode_event(entry.body))
            self.note(f"{batch.agent} commits {seq} {entry.body.decode()}")

    def remember(self, agent: str, event: Event) -> None:
        """Keep what the checks need of a committed event."""
        match event:
            case TurnAccepted():
                self._requests[agent, event.turn] = event.request
                self.ends[agent, event.request] = None
                self.placed.add((agent, event.message_id))
                self.placed.update((agent, placed.id) for placed in event.messages)
            case Chunk():
                request = self._requests[agent, event.turn]
                self.chunks[agent, request, event.index] = bytes(event.body).decode()
            case TurnEnded():
                self.ends[agent, self._requests[agent, event.turn]] = event.outcome.value
            case MessagesPut():
                self.placed.update((agent, placed.id) for placed in event.messages)
            case _:
                pass

    # -- links -----------------------------------------------------------------------------------------------------

    def connect(self, tab: SimulatedTab) -> bool:
        """Connect a tab that has no link; False when there is no server to connect to."""
        if self.server is None or not self.server.is_open or tab.link is not None:
            return False
        self._links += 1
        link = Link(f"{tab.name}#{self._links}", self.chance.choice((2, 8, 64)), lambda text: self._sent(tab, text))
        self.note(f"{link.name} connects")
        self.server.serve(link, tab.agent, tab.name)
        tab.connect(link)
        return True

    def drop(self, tab: SimulatedTab) -> Link:
        """Disconnect a tab, closed or half-open; some frames in flight still arrive."""
        link = tab.link
        assert link is not None
        told = self.chance.random() < 0.6
        for _ in range(self.chance.randrange(len(link.down) + 1)):
            self.deliver_down(tab)
            if tab.link is None:
                return link
        arriving = self.chance.randrange(len(link.up) + 1)
        self.note(f"{link.name} drops, {'told' if told else 'half-open'}, {arriving} arrive")
        link.lose_client(arriving, told=told)
        tab.disconnect()
        return link

    def deliver_down(self, tab: SimulatedTab) -> None:
        assert tab.link is not None
        link, item = tab.link, tab.link.take_down()
        self.note(f"{link.name} <- {item}")
        tab.arrive(item)

    def deliver_up(self, link: Link) -> None:
        self.note(f"{link.name} -> {link.deliver_up()}")

    def _sent(self, tab: SimulatedTab, text: str) -> None:
        """Check a frame as it leaves the server: its content is committed (I-3), byte for byte (I-4)."""
        frame = msgspec.json.decode(text)
        match frame.get("type"):
            case "cf_agent_use_chat_response":
                request = frame["id"]
                is_so = "seq" not in frame or self.chunks.get((tab.agent, request, frame["seq"])) == frame["body"]
                if "outcome" in frame:  # a request that was refused never became a turn
                    is_so = self.ends.get((tab.agent, request), frame["outcome"]) == frame["outcome"]
            case "cf_agent_chat_messages":
                is_so = all((tab.agent, message["id"]) in self.placed for message in frame["messages"])
            case _:
                is_so = True
        if not is_so:
            self.report_problem("committed", f"{tab.name} is sent what is not in the log: {text}")

    # -- gates of answers -----------------------------------------------------------------------------------------

    def open_gates(self) -> None:
        for gate in self.gates.values():
            gate.set()


def _as_it_is(message: JsonObject) -> JsonObject:
    return message


def _redacted(message: JsonObject) -> JsonObject:
    parts = [
        {**part, "text": part["text"].replace("red", "***")} if "text" in part else part for part in message["parts"]
    ]
    return {**message, "parts": parts}


def _refused(message: JsonObject) -> JsonObject:
    if any("blue blue" in part.get("text", "") for part in message["parts"]):
        raise ValueError("it must not be stored")
    return message


class RunEnvironment:
    """The world, as the answers of one server run see it."""

    def __init__(self, world: World, run: list[ServerRun]) -> None:
        self._world, self._run = world, run

    @property
    def _is_over(self) -> bool:
        return bool(self._run) and self._run[0].is_dead

    async def pass_gate(self, name: str) -> None:
        if not self._world.gates_stay_open:
            await self._world.gates.setdefault(name, asyncio.Event()).wait()

    def touch(self, key: str) -> None:
        if not self._is_over:
            self._world.effects[key] += 1

    def hear(self, result: TurnResult) -> None:
        if not self._is_over:
            self._world.told[result.agent, result.turn] += 1

    async def sleep_until(self, at: Millis) -> None:
        await self._world.clock.sleep_until(at)

    def now(self) -> Millis:
        return self._world.clock.now()
