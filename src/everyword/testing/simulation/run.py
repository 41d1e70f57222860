"""One seed, from an empty log to the last check."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ...runtime import random_ids, tail
from ...server import websocket
from .checks import check_chunks_fit, check_log, check_log_readers, check_tabs
from .loop import SeededLoop
from .network import Link
from .tabs import SimulatedTab
from .timed_loop import TimedLoop
from .world import Faults, World

__all__ = ["Run", "simulate"]

MOST_STEPS = 400_000
LAST_STEPS = 60
LAST_WAIT = 1.0
"""Seconds that callers have to notice that the server is closed."""
LAST_STEPS_OF_TASKS = 100_000
"""Steps in which cancelled tasks have to end."""
LONGEST_FLIGHT = 5_000
"""Milliseconds that a frame may take: the server expects that it arrives within ten seconds, or never."""
WAITS = (50, 1_000, 5_000, 30_000)

_EXPECTED = (
    "unable to write",
    "unable to load",
    "unable to read the wake table",
    "unable to prune",
    "has another owner",
)
_AFTER_FAULTS = ("has lost its lease", "is set aside; it never ended")


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one seed. `problems` are pairs of a check's name and its finding; empty after a success."""

    seed: int
    trace: list[str]
    problems: list[tuple[str, str]]
    lives: int
    turns: int
    nodes: bool = False

    def report(self, last: int = LAST_STEPS) -> str:
        """Return the seed, its problems, the last steps, and how to see it again."""
        found = [f"seed {self.seed} failed:", *(f"- {check}: {what}" for check, what in self.problems)]
        which = "--nodes " if self.nodes else ""
        again = f"again: python -m tools.simulate {which}--first {self.seed} --seeds 1 --trace"
        return "\n".join([*found, f"the last {last} of {len(self.trace)} steps:", *self.trace[-last:], again])


def simulate(seed: int, *, nodes: bool = False, without: frozenset[str] = frozenset()) -> Run:
    """Run a seed. The same seed gives the same trace, byte for byte; checks named in `without` are skipped.

    With `nodes`, the world has two to four nodes that share a database; the history of a seed is another one then.
    """
    chance = Random(f"nodes {seed}" if nodes else seed)
    shuffles = chance.random() < 0.5
    if nodes:
        from .nodes_play import play_nodes
        from .nodes_world import NodesWorld

        timed = TimedLoop(chance, shuffles=shuffles, most_steps=MOST_STEPS)
        several = NodesWorld.of(seed, chance, timed)
        return _run(several, timed, play_nodes(several, timed), without)
    loop = SeededLoop(chance, shuffles=shuffles, most_steps=MOST_STEPS)
    world = World.drawn(seed, chance)
    return _run(world, loop, _play(world, loop), without)


def _run(world: World, loop: SeededLoop, play: Coroutine[Any, Any, None], without: frozenset[str]) -> Run:
    loop.set_exception_handler(lambda _, context: _broken(world, context))
    with _deterministic(world):
        try:
            loop.run_until_complete(play)
        except TimeoutError as exc:
            world.report_problem("stalled", str(exc))
        finally:
            loop.allow(LAST_STEPS_OF_TASKS)
            loop.run_until_complete(loop.end_all())
            loop.close()
    problems = [problem for problem in world.problems if problem[0] not in without]
    return Run(world.seed, world.trace, problems, len(world.server_runs), len(world.told), isinstance(loop, TimedLoop))


class _NumberedEvent(asyncio.Event):
    """An event whose hash does not depend on its address in memory, so that sets have the same order in every run."""

    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self._number = next(self.numbers)

    def __hash__(self) -> int:
        return self._number


class _LoggedErrors(logging.Handler):
    """Reports errors in the server's log as problems, unless a simulated fault explains them."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if any(phrase in text for phrase in _EXPECTED) and not self._is_theft(text):
            return
        if self._world.disturbances and any(phrase in text for phrase in _AFTER_FAULTS):
            self._world.note(text)
            return
        why = f" ({record.exc_info[1]!r})" if record.exc_info else ""
        self._world.report_problem("errors", f"{text}{why}")

    def _is_theft(self, text: str) -> bool:
        """Tell whether an agent has another owner though nothing happened to its node."""
        return "has another owner" in text and not self._world.disturbances


@contextmanager
def _deterministic(world: World) -> Iterator[None]:
    """Replace what differs between runs: random ids, counters, addresses, garbage collection, log output."""
    ids = Random(f"ids {world.seed}")
    log, errors = logging.getLogger("everyword"), _LoggedErrors(world)
    propagates, log.propagate = log.propagate, False
    log.addHandler(errors)
    _NumberedEvent.numbers = itertools.count()
    collects = gc.isenabled()
    gc.disable()
    try:
        with (
            patch.object(
                random_ids, "secrets", SimpleNamespace(token_urlsafe=lambda size: f"{ids.getrandbits(48):012x}")
            ),
            patch.object(websocket, "_serials", itertools.count(1)),
            patch.object(websocket, "_process_mark", "simulated"),
            patch.object(tail, "asyncio", SimpleNamespace(Event=_NumberedEvent)),
        ):
            yield
    finally:
        log.removeHandler(errors)
        log.propagate = propagates
        if collects:
            gc.enable()


def _broken(world: World, context: dict[str, Any]) -> None:
    if "never retrieved" not in context["message"] and "was destroyed" not in context["message"]:
        world.report_problem("errors", f"{context['message']}: {context.get('exception')!r}")


async def _play(world: World, loop: SeededLoop) -> None:
    await world.start_server()
    half_open: list[Link] = []
    flown = 0
    for _ in range(world.chance.choice((30, 80, 80, 200))):
        await _start_or_stop_server(world)
        _step(world, half_open)
        if world.chance.random() < 0.1:
            await loop.quiet()
        if world.chance.random() < 0.1:
            flown = await _pass_time(world, loop, flown)
        for _ in range(world.chance.choice((0, 1, 3, 10, 30))):
            await asyncio.sleep(0)
    await _settle(world, loop, half_open)
    await check_log(world)
    observer = SimulatedTab("observer", world.agents[0], Random(0))
    observer.behave()
    world.tabs.append(observer)
    await _drain(world, loop)
    await check_tabs(world, world.tabs)
    check_chunks_fit(world)
    await check_log_readers(world)
    await _stop(world, loop)


async def _start_or_stop_server(world: World) -> None:
    run = world.server
    if run is not None and run.is_over:
        for name in await run.end():
            world.report_problem("leaks", f"{name} would not be cancelled")
        for link in run.links:
            link.lose_server(len(link.down))
        world.server = None
    if world.server is None:
        if world.chance.random() < 0.5:
            await world.start_server()
    elif world.server.is_open and world.chance.random() < 0.003:
        world.note(f"server {world.server.number} is stopped")
        await world.server.stop()


def _step(world: World, half_open: list[Link]) -> None:
    """Do one random thing outside of the server."""
    chance, tab = world.chance, world.chance.choice(world.tabs)
    draw = chance.random()
    if draw < 0.25:
        world.note(f"{tab.name} {tab.act()}")
    elif draw < 0.32:
        if tab.link is not None:
            link = world.drop(tab)
            if not link.is_cut:
                half_open.append(link)
    elif draw < 0.36 and half_open:
        half_open.pop(chance.randrange(len(half_open))).tell()
    elif draw < 0.42:
        waiting = [name for name, gate in world.gates.items() if not gate.is_set()]
        if waiting:
            name = chance.choice(waiting)
            world.note(f"gate {name} opens")
            world.gates[name].set()
    elif draw < 0.54:
        tab.release()
    elif draw < 0.58:
        _use_without_a_tab(world)
    elif tab.link is None:
        world.connect(tab)
    else:
        _deliver_some(world, tab)


async def _pass_time(world: World, loop: SeededLoop, flown: int) -> int:
    """Advance the clock; nothing is in flight for longer than `LONGEST_FLIGHT`. Returns for how long it may be now."""
    wait = world.chance.choices((1, 10, 50, 200, 1000, 70_000), (4, 4, 4, 4, 4, 1))[0]
    flown += wait
    if flown > LONGEST_FLIGHT:
        flown = 0
        await _let_arrive(world, loop)
    world.clock.advance(wait / 1000)
    return flown


def _use_without_a_tab(world: World) -> None:
    """Let the server's own code or a log reader do something."""
    chance, run = world.chance, world.server
    if run is None or not run.is_open:
        return
    if world.server_code is not None and chance.random() < 0.5:
        world.note(f"the server asks {world.server_code.act(run, chance.choice(world.agents))}")
    for reader in world.log_readers:
        if chance.random() < 0.3:
            reader.drop()
        elif reader.connect(run):
            world.note(f"a reader of {reader.agent} goes on after {reader.seen[-1:]}")


def _deliver_some(world: World, tab: SimulatedTab) -> None:
    """Let some frames of a link arrive."""
    for _ in range(world.chance.choice((1, 1, 2, 5, 20))):
        if tab.link is not None and tab.link.up and world.chance.random() < 0.5:
            world.deliver_up(tab.link)
        elif tab.link is not None and tab.link.down and not tab.stops_reading:
            world.deliver_down(tab)


async def _drain(world: World, loop: SeededLoop) -> None:
    """Connect all tabs, deliver all frames and run all tasks until nothing is left to do."""
    is_busy = True
    while is_busy:
        await _let_arrive(world, loop)
        is_busy = False
        for reader in world.log_readers:
            if world.server is not None and world.server.is_open:
                is_busy |= reader.connect(world.server)
        for tab in world.tabs:
            is_busy |= tab.link is None and world.connect(tab)


async def _let_arrive(world: World, loop: SeededLoop) -> None:
    """Deliver all frames in flight, and those that they cause."""
    is_busy = True
    while is_busy:
        await loop.quiet()
        is_busy = False
        for tab in world.tabs:
            while tab.link is not None and tab.link.up:
                world.deliver_up(tab.link)
                is_busy = True
            while tab.link is not None and tab.link.down:
                world.deliver_down(tab)
                is_busy = True


async def _settle(world: World, loop: SeededLoop, half_open: list[Link]) -> None:
    """End all faults, and let every turn end."""
    world.note("no more faults")
    world.faults, world.gates_stay_open = Faults(), True
    world.open_gates()
    while world.server is None or world.server.is_over:
        await _start_or_stop_server(world)
    for link in half_open:
        link.tell()
    for tab in world.tabs:
        tab.behave()
    await _let_time_pass(world, loop)
    for tab in world.tabs:
        tab.ask_again()
    await _let_time_pass(world, loop)


async def _let_time_pass(world: World, loop: SeededLoop) -> None:
    """Advance the clock until the trace has not grown for longer than every timeout."""
    waits, head = deque(WAITS), -1
    while waits:
        await _drain(world, loop)
        if len(world.trace) != head:
            waits, head = deque(WAITS), len(world.trace)
        world.clock.advance(waits.popleft() / 1000)
    await _drain(world, loop)


async def _stop(world: World, loop: SeededLoop) -> None:
    assert world.server is not None
    for tab in world.tabs:
        if tab.link is not None:
            tab.link.lose_client(0, told=True)
    for reader in world.log_readers:
        reader.drop()
    await world.server.stop()
    await asyncio.sleep(LAST_WAIT)
    await loop.quiet()
    for name in world.server.running():
        world.report_problem("leaks", f"{name} still runs after the server was closed")
