"""One seed, from an empty log to the last check."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ...runtime import random_ids, tail
from ...server import websocket
from .loop import SeededLoop
from .network import Link
from .proofs import check_followers, check_log, check_misfits, check_tabs
from .tabs import Tab
from .world import Faults, World

__all__ = ["Run", "simulate"]

MOST_STEPS = 400_000
LAST_STEPS = 60
LONGEST_FLIGHT = 5_000
"""Milliseconds that a frame may take: the server holds that it arrives within ten seconds, or never."""
WAITS = (50, 1_000, 5_000, 30_000)

_EXPECTED = (
    "unable to write",
    "unable to load",
    "unable to read the wake table",
    "unable to prune",
    "has another owner",
)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a seed. `problems` are pairs of a check's name and what it found; none is a success."""

    seed: int
    trace: list[str]
    problems: list[tuple[str, str]]
    lives: int
    turns: int

    def report(self, last: int = LAST_STEPS) -> str:
        """Return the seed, its problems, the last steps, and how to see it again."""
        found = [f"seed {self.seed} failed:", *(f"- {check}: {what}" for check, what in self.problems)]
        again = f"again: python -m tools.simulate --first {self.seed} --seeds 1 --trace"
        return "\n".join([*found, f"the last {last} of {len(self.trace)} steps:", *self.trace[-last:], again])


def simulate(seed: int, *, without: frozenset[str] = frozenset()) -> Run:
    """Play a seed. The same seed gives the same trace, byte for byte; checks named in `without` are passed over."""
    chance = Random(seed)
    loop = SeededLoop(chance, shuffles=chance.random() < 0.5, most_steps=MOST_STEPS)
    world = World.drawn(seed, chance)
    loop.set_exception_handler(lambda _, context: _broken(world, context))
    with _of_this_world(world):
        try:
            loop.run_until_complete(_play(world, loop))
        except TimeoutError as exc:
            world.blame("stalled", str(exc))
        finally:
            loop.run_until_complete(loop.end_all())
            loop.close()
    problems = [problem for problem in world.problems if problem[0] not in without]
    return Run(seed, world.trace, problems, len(world.lives), len(world.told))


class _Numbered(asyncio.Event):
    """An event whose place in a set does not depend on its address in memory."""

    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self._number = next(self.numbers)

    def __hash__(self) -> int:
        return self._number


class _Ears(logging.Handler):
    """Hears what the server complains of; what no fault of ours explains is a problem."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if any(phrase in text for phrase in _EXPECTED):
            return
        why = f" ({record.exc_info[1]!r})" if record.exc_info else ""
        self._world.blame("errors", f"{text}{why}")


@contextmanager
def _of_this_world(world: World) -> Iterator[None]:
    """Take away what differs from run to run: fresh ids, counters, addresses, the collector's moods, log output."""
    ids = Random(f"ids {world.seed}")
    log, ears = logging.getLogger("everyword"), _Ears(world)
    propagates, log.propagate = log.propagate, False
    log.addHandler(ears)
    _Numbered.numbers = itertools.count()
    collects = gc.isenabled()
    gc.disable()
    try:
        with (
            patch.object(
                random_ids, "secrets", SimpleNamespace(token_urlsafe=lambda size: f"{ids.getrandbits(48):012x}")
            ),
            patch.object(websocket, "_serials", itertools.count(1)),
            patch.object(websocket, "_process_mark", "simulated"),
            patch.object(tail, "asyncio", SimpleNamespace(Event=_Numbered)),
        ):
            yield
    finally:
        log.removeHandler(ears)
        log.propagate = propagates
        if collects:
            gc.enable()


def _broken(world: World, context: dict[str, Any]) -> None:
    if "never retrieved" not in context["message"] and "was destroyed" not in context["message"]:
        world.blame("errors", f"{context['message']}: {context.get('exception')!r}")


async def _play(world: World, loop: SeededLoop) -> None:
    await world.start_life()
    half_open: list[Link] = []
    flown = 0
    for _ in range(world.chance.choice((30, 80, 80, 200))):
        await _look_after_life(world)
        _step(world, half_open)
        if world.chance.random() < 0.1:
            await loop.quiet()
        if world.chance.random() < 0.1:
            flown = await _pass_time(world, loop, flown)
        for _ in range(world.chance.choice((0, 1, 3, 10, 30))):
            await asyncio.sleep(0)
    await _settle(world, loop, half_open)
    await check_log(world)
    observer = Tab("observer", world.agents[0], Random(0))
    observer.behave()
    world.tabs.append(observer)
    await _drain(world, loop)
    await check_tabs(world, world.tabs)
    check_misfits(world)
    await check_followers(world)
    await _stop(world, loop)


async def _look_after_life(world: World) -> None:
    life = world.life
    if life is not None and life.is_over:
        for name in await life.end():
            world.blame("leaks", f"{name} would not be cancelled")
        for link in life.links:
            link.lose_server(len(link.down))
        world.life = None
    if world.life is None:
        if world.chance.random() < 0.5:
            await world.start_life()
    elif world.life.is_open and world.chance.random() < 0.003:
        world.note(f"life {world.life.number} is stopped")
        await world.life.stop()


def _step(world: World, half_open: list[Link]) -> None:
    """Let one thing happen, outside of the server."""
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
        _beside(world)
    elif tab.link is None:
        world.connect(tab)
    else:
        _carry(world, tab)


async def _pass_time(world: World, loop: SeededLoop, flown: int) -> int:
    """Advance the clock; nothing is in flight for longer than `LONGEST_FLIGHT`. Returns for how long it may be now."""
    wait = world.chance.choices((1, 10, 50, 200, 1000, 70_000), (4, 4, 4, 4, 4, 1))[0]
    flown += wait
    if flown > LONGEST_FLIGHT:
        flown = 0
        await _let_arrive(world, loop)
    world.clock.advance(wait / 1000)
    return flown


def _beside(world: World) -> None:
    """Let somebody do something who is no tab."""
    chance, life = world.chance, world.life
    if life is None or not life.is_open:
        return
    if world.insider is not None and chance.random() < 0.5:
        world.note(f"the server asks {world.insider.act(life, chance.choice(world.agents))}")
    for follower in world.followers:
        if chance.random() < 0.3:
            follower.drop()
        elif follower.connect(life):
            world.note(f"a reader of {follower.agent} goes on after {follower.seen[-1:]}")


def _carry(world: World, tab: Tab) -> None:
    """Let some frames of a link arrive."""
    for _ in range(world.chance.choice((1, 1, 2, 5, 20))):
        if tab.link is not None and tab.link.up and world.chance.random() < 0.5:
            world.deliver_up(tab.link)
        elif tab.link is not None and tab.link.down and not tab.is_deaf:
            world.deliver_down(tab)


async def _drain(world: World, loop: SeededLoop) -> None:
    """Let everything arrive and everything run, everybody connected, until nothing is left to do."""
    is_busy = True
    while is_busy:
        await _let_arrive(world, loop)
        is_busy = False
        for follower in world.followers:
            if world.life is not None and world.life.is_open:
                is_busy |= follower.connect(world.life)
        for tab in world.tabs:
            is_busy |= tab.link is None and world.connect(tab)


async def _let_arrive(world: World, loop: SeededLoop) -> None:
    """Let everything arrive that is in flight, and what it causes."""
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
    """Nothing goes wrong any more: let all be said and done."""
    world.note("all is well from here on")
    world.faults, world.gates_stay_open = Faults(), True
    world.open_gates()
    while world.life is None or world.life.is_over:
        await _look_after_life(world)
    for link in half_open:
        link.tell()
    for tab in world.tabs:
        tab.behave()
    await _let_time_pass(world, loop)
    for tab in world.tabs:
        tab.ask_again()
    await _let_time_pass(world, loop)


async def _let_time_pass(world: World, loop: SeededLoop) -> None:
    """Let the clock run until nothing has been written for longer than anybody waits for anything."""
    waits, head = deque(WAITS), -1
    while waits:
        await _drain(world, loop)
        if len(world.trace) != head:
            waits, head = deque(WAITS), len(world.trace)
        world.clock.advance(waits.popleft() / 1000)
    await _drain(world, loop)


async def _stop(world: World, loop: SeededLoop) -> None:
    assert world.life is not None
    for tab in world.tabs:
        if tab.link is not None:
            tab.link.lose_client(0, told=True)
    for follower in world.followers:
        follower.drop()
    await world.life.stop()
    await loop.quiet()
    for name in world.life.running():
        world.blame("leaks", f"{name} still runs after the server was closed")
