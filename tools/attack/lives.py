"""Kills and stops: a server under load dies again and again, and in the end nothing is lost and nothing was done twice.

The clients, the agents and most of the checks are those of tests/chaos. Here the server is a real `everyword serve`,
it has jobs and fibers as well, and it is told to stop in every way there is.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import msgspec

from everyword.cli.web_server import EXIT_DEADLINE
from everyword.events import FiberEnded, FiberStarted, JobAdded, JobEnded, JobStarted, decode_event
from everyword.ids import AgentId
from everyword.log.sqlite.store import SqliteLog
from tests.chaos.agents import KINDS
from tests.chaos.crowd import Looker, Tab, come_to_rest
from tests.chaos.proofs import prove
from tests.chaos.serving import STORE
from tests.crash.proofs import read_all
from tests.server.raw import RawSocket
from tools.attack import shapes
from tools.attack.findings import Findings
from tools.attack.forking import Forks
from tools.attack.serving import Serving, read_notes
from tools.attack.settings import NEVER, STEPS

__all__ = ["attack_with_kills", "attack_with_stops"]

MOST_FRAMES: Final = 2000
"""Frames that all clients together are shown in one life."""
LONGEST_LIFE: Final = 3.0
ERRANDS: Final = 3
"""Agents that do jobs and fibers."""
PATIENCE: Final = 60.0
WARM: Final = 500
"""Frames that all clients together are shown in the first life, so that even a short run has something to compare."""
SLACK: Final = 6.0
"""Seconds that a busy machine may take for what should take none."""
MOST_FIBER_ATTEMPTS: Final = 5
GRACES: Final = {"0": 4, "0.3": 4, "8": 2}
"""Grace periods in seconds, and how often each is taken."""

TURNS, CHUNKS, EFFECTS, JOBS, FIBERS, WRITTEN = (
    "turns, each ended once, as every client was told",
    "chunks shown to clients, compared with the log",
    "effects of tools, none twice",
    "jobs, none lost, none run again once it was done",
    "fibers, none lost, each step from its checkpoint",
    "lines of the log",
)
KILLED = {
    "talking": "SIGKILL while chats stream, tools, jobs and fibers run",
    "ready": "SIGKILL as soon as it listens",
    "begun": "SIGKILL while it starts",
}
HANGING = {
    "body": "stops with a request whose body never ends",
    "authorize": "stops with an `authorize` that never returns",
    "tool": "stops with a tool that hangs in its thread",
}
TWICE = "two signals, gone at once"


class Stage:
    """One server that lives many times, and the clients' view of it; implements `crowd.Server`."""

    def __init__(self, folder: Path, fault: str) -> None:
        self._forks = Forks()
        self.server = Serving(folder, "crowded.py", self._forks, ATTACK_FAULT=fault)
        self.port, self.is_closing, self.frames = self.server.port, False, 0
        self.errands = Errands(self)
        self._is_warm = False
        self._up, self._changed = asyncio.Event(), asyncio.Event()

    async def until_up(self) -> None:
        await self._up.wait()

    def heard(self) -> None:
        self.frames += 1
        self._changed.set()

    async def until_busy(self, chance: Random) -> None:
        """Wait until clients were shown a random number of frames, or for as long as a life may last."""
        enough, is_first, self._is_warm = self.frames + round(MOST_FRAMES ** chance.random()), not self._is_warm, True
        try:
            async with asyncio.timeout(PATIENCE if is_first else LONGEST_LIFE):
                while self.frames < (max(enough, WARM) if is_first else enough):
                    self._changed.clear()
                    await self._changed.wait()
                if is_first:
                    await self.errands.begun.wait()
        except TimeoutError:
            return

    async def aclose(self) -> None:
        await self.server.kill()
        await self._forks.aclose()

    async def start(self, **environment: str) -> None:
        await self.server.start(**environment)
        self._up.set()

    async def end(self, *signs: signal.Signals, pause: float = 0.0, within: float) -> float | None:
        """Send the signals; return after how many seconds the process was gone, None if it had to be killed."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number, sign in enumerate(signs):
            if number:
                await asyncio.sleep(pause)
            self.server.send_signal(sign)
        self._up.clear()
        code = await self.server.gone(within)
        if code is None:
            await self.server.kill()
        return loop.time() - began if code is not None else None


@dataclass
class Errands:
    """A client that hands out jobs and fibers, and remembers which of them the server has taken."""

    stage: Stage
    jobs: list[str] = field(default_factory=list)
    fibers: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a job and a fiber were taken."""

    async def run(self) -> None:
        """Hand out work until cancelled."""
        await asyncio.gather(*(self._hand_out(agent) for agent in range(ERRANDS)))

    async def _hand_out(self, agent: int) -> None:
        async with self._client() as client:
            for number in itertools.count():
                await self.stage.until_up()
                if self.stage.is_closing:
                    return
                what = ("fiber", "job", "job")[number % 3]
                name = f"{what}-{agent}-{number}"
                try:
                    answer = await client.post(f"e{agent}/{what}/{name}")
                except httpx.TransportError:
                    await asyncio.sleep(0)
                    continue
                if answer.status_code == 200:
                    (self.jobs if what == "job" else self.fibers).append(name)
                    if self.jobs and self.fibers:
                        self.begun.set()
                await asyncio.sleep(0.02)

    async def come_to_rest(self) -> None:
        """Wait until all work is done."""
        async with self._client() as client, asyncio.timeout(PATIENCE):
            for agent in range(ERRANDS):
                while (await client.get(f"e{agent}/standing/now")).json()["open"]:  # noqa: ASYNC110 - told by nobody
                    await asyncio.sleep(0.05)

    def _client(self) -> httpx.AsyncClient:
        url = f"http://127.0.0.1:{self.stage.port}/agents/errand"
        return httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False)


@dataclass
class Crowd:
    """Everybody who uses the server while it dies."""

    tabs: list[Tab]
    looker: Looker
    errands: Errands

    @classmethod
    @asynccontextmanager
    async def gathered(cls, stage: Stage, chance: Random) -> AsyncIterator[Crowd]:
        tabs = [Tab(stage, kind, 0, Random(chance.random())) for kind in KINDS]
        looker = Looker(stage, KINDS, Random(chance.random()))
        crowd = cls(tabs, looker, stage.errands)
        work = [*(tab.run() for tab in tabs), looker.run(), crowd.errands.run()]
        people = [asyncio.create_task(each) for each in work]
        try:
            yield crowd
        finally:
            for person in people:
                person.cancel()
            await asyncio.gather(*people, return_exceptions=True)


Wreck = Callable[[Stage, Random, Findings, float], Any]


async def attack_with_kills(folder: Path, seed: int, seconds: float, fault: str = "") -> Findings:
    """Kill a server under load for so many seconds, then check what is left."""
    return await _attack("kills", _kill_again_and_again, folder, seed, seconds, fault)


async def attack_with_stops(folder: Path, seed: int, seconds: float, fault: str = "") -> Findings:
    """Stop a server under load for so many seconds, in every way, then check what is left."""
    return await _attack("stops", _stop_again_and_again, folder, seed, seconds, fault)


async def _attack(name: str, wreck: Wreck, folder: Path, seed: int, seconds: float, fault: str) -> Findings:
    findings, chance = Findings(name), Random(f"{seed} {name}")
    stage = Stage(folder, fault)
    try:
        async with Crowd.gathered(stage, chance) as crowd:
            await wreck(stage, chance, findings, asyncio.get_running_loop().time() + seconds)
            stage.is_closing = True
            await stage.start()
            try:
                await come_to_rest(stage, crowd.tabs)
                await crowd.errands.come_to_rest()
            except (AssertionError, TimeoutError) as exc:
                findings.blame(TURNS, f"seed {seed}: not everything came to an end: {exc}")
        await stage.end(signal.SIGTERM, within=PATIENCE)
        await _check(findings, folder, crowd, seed)
        for complaint in stage.server.complaints(may_raise=True):
            findings.blame(WRITTEN, f"{complaint} (seed {seed})")
        return findings
    finally:
        await stage.aclose()


# -- kills ------------------------------------------------------------------------------------------------------------


async def _kill_again_and_again(stage: Stage, chance: Random, findings: Findings, until: float) -> None:
    loop, hows = asyncio.get_running_loop(), itertools.chain(KILLED, itertools.repeat(""))
    while (how := next(hows)) or loop.time() < until:
        how = how or chance.choices(tuple(KILLED), (10, 1, 1))[0]
        findings.count(KILLED[how])
        if how == "begun":
            await stage.server.begin()
            await asyncio.sleep(chance.uniform(0.0, 0.2))
        else:
            await stage.start()
            if how == "talking":
                await stage.until_busy(chance)
        await stage.end(signal.SIGKILL, within=PATIENCE)


# -- stops ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """One way to stop a server: with how much grace, with what in the way, and whether it is told twice."""

    grace: str
    hangs: str | None
    is_twice: bool = False

    @classmethod
    def chosen(cls, chance: Random) -> Way:
        grace = chance.choices(tuple(GRACES), tuple(GRACES.values()))[0]
        return cls(grace, chance.choice((None, None, *HANGING)), chance.random() < 0.2)

    @property
    def what(self) -> str:
        return TWICE if self.is_twice else f"SIGTERM or SIGINT, grace {self.grace} s"

    @property
    def within(self) -> float:
        """Seconds after which the process must be gone."""
        return SLACK if self.is_twice else float(self.grace) + EXIT_DEADLINE + SLACK


FIRST_WAYS: Final = (Way("0", "body"), Way("0.3", "authorize"), Way("8", "tool"), Way("8", None, is_twice=True))
"""Taken by every run, however short."""


async def _stop_again_and_again(stage: Stage, chance: Random, findings: Findings, until: float) -> None:
    loop, ways = asyncio.get_running_loop(), iter(FIRST_WAYS)
    for what in (*(way.what for way in FIRST_WAYS), *HANGING.values()):
        findings.row(what)
    while (first := next(ways, None)) is not None or loop.time() < until:
        way = first or Way.chosen(chance)
        await stage.start(ATTACK_GRACE=way.grace)
        await stage.until_busy(chance)
        await _stop(stage, chance, findings, way)


async def _stop(stage: Stage, chance: Random, findings: Findings, way: Way) -> None:
    """Stop the server; blame it when it is still there once it must be gone."""
    async with AsyncExitStack() as stack:
        if way.hangs is not None:
            findings.count(HANGING[way.hangs])
            await _hang(stack, stage.server.url, way.hangs, chance)
        findings.count(way.what)
        sign = chance.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGINT))
        signs = (sign, sign) if way.is_twice else (sign,)
        if await stage.end(*signs, pause=chance.uniform(0.0, 0.3), within=way.within) is None:
            row = HANGING[way.hangs] if way.hangs is not None else way.what
            findings.blame(row, f"still there {way.within:g} s after {sign.name} ({way})")


async def _hang(stack: AsyncExitStack, url: str, how: str, chance: Random) -> None:
    """Have the server wait for something that never comes."""
    name = f"n{chance.getrandbits(32)}"
    question = msgspec.json.encode({"messages": [shapes.user("u1", "sleep")]})
    begin, length = "Host: localhost", f"Content-Length: {len(question)}"
    requests = {
        "body": f"POST /agents/plain/{name}/chat HTTP/1.1\r\n{begin}\r\nContent-Length: 1000\r\n\r\n{{",
        "authorize": f"GET /agents/plain/{NEVER}/get-messages HTTP/1.1\r\n{begin}\r\n\r\n",
        "tool": f"POST /agents/sleeper/{name}/chat HTTP/1.1\r\n{begin}\r\n{length}\r\n\r\n{question.decode()}",
    }
    client = await stack.enter_async_context(RawSocket.connected(url))
    await client.push(requests[how].encode())
    if how == "tool":
        await client.read_until(b"\r\n\r\n")


# -- what is left -----------------------------------------------------------------------------------------------------


async def _check(findings: Findings, folder: Path, crowd: Crowd, seed: int) -> None:
    """Hold what clients were shown and what was done against the log."""
    try:
        found = await prove(folder, crowd.tabs, crowd.looker.memories.values())
    except AssertionError as exc:
        findings.blame(TURNS, f"the log is not as it must be: {exc} (seed {seed})")
        return
    findings.count(TURNS, found.counts["turns"])
    findings.count(CHUNKS, found.counts["words"])
    findings.count(EFFECTS, found.counts["effects"])
    for problem in found.problems:
        row = EFFECTS if " was done " in problem else CHUNKS if " saw " in problem else TURNS
        findings.blame(row, f"{problem} (seed {seed})")
    store = SqliteLog(folder / STORE)
    await store.open()
    try:
        agents = [AgentId(f"errand/e{number}") for number in range(ERRANDS)]
        events = [decode_event(stored.body) for agent in agents for stored in await read_all(store, agent)]
    finally:
        await store.aclose()
    notes = list(read_notes(folder))
    for problem in _wrong_jobs(findings, events, notes, crowd.errands.jobs):
        findings.blame(JOBS, f"{problem} (seed {seed})")
    for problem in _wrong_fibers(findings, events, notes, crowd.errands.fibers):
        findings.blame(FIBERS, f"{problem} (seed {seed})")


def _wrong_jobs(findings: Findings, events: list[Any], notes: list[list[str]], taken: list[str]) -> Iterator[str]:
    """Every job that was taken was done; none was run more often than the log says that it began."""
    names = {each.job: msgspec.json.decode(bytes(each.payload)) for each in events if isinstance(each, JobAdded)}
    added = Counter(names.values())
    began = Counter(names[each.job] for each in events if isinstance(each, JobStarted))
    ended = Counter(names[each.job] for each in events if isinstance(each, JobEnded) and each.outcome == "done")
    done = Counter(words[1] for words in notes if words[0] == "job")
    findings.count(JOBS, len(names))
    for name in {*taken, *added}:
        if (added[name], ended[name]) != (1, 1) or not 1 <= done[name] <= began[name]:
            counts = f"added {added[name]} times, begun {began[name]}, run {done[name]}, done {ended[name]}"
            yield f"{name} was {counts}"


def _wrong_fibers(findings: Findings, events: list[Any], notes: list[list[str]], taken: list[str]) -> Iterator[str]:
    """Every fiber that was taken ended; a step was repeated only when its process died before the checkpoint."""
    began = Counter(str(each.fiber) for each in events if isinstance(each, FiberStarted))
    ends = {str(each.fiber): each.outcome for each in events if isinstance(each, FiberEnded)}
    steps: dict[str, list[int]] = defaultdict(list)
    for words in notes:
        if words[0] == "step":
            steps[words[1]].append(int(words[2]))
    findings.count(FIBERS, len(began))
    for name in {*taken, *began}:
        if ends.get(name) == "set-aside" and began[name] >= MOST_FIBER_ATTEMPTS:
            continue  # it was cut off as often as a fiber may be
        is_in_order = all(after - before in (0, 1) for before, after in itertools.pairwise(steps[name]))
        repeated = len(steps[name]) - len(set(steps[name]))
        is_whole = set(steps[name]) == set(range(STEPS)) and ends.get(name) == "done"
        if not is_whole or not is_in_order or repeated >= began[name]:
            yield f"{name} did the steps {steps[name]} in {began[name]} attempts and ended {ends.get(name)}"
