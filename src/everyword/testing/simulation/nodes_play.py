"""Plays a world of several nodes: draws what happens to them and to their clients, ends all faults, and checks."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from ...log.postgres import node_lease
from ...server import websocket
from .checks import check_chunks_fit, check_endings, check_log, check_log_readers, check_tabs
from .database_view import DatabaseView
from .loop import owner_of_tasks
from .network import Link
from .node_checks import check_memory, check_nodes, check_relays, check_woken
from .node_run import NodeRun
from .nodes_world import NodeFaults, NodesWorld
from .tabs import SimulatedTab
from .timed_loop import TimedLoop, own_clock

__all__ = ["play_nodes"]

LONGEST_FLIGHT = 5.0
WAITS = (0.05, 1.0, 4.0, 12.0)
"""The last is longer than a client waits for the owner of its agent, and than a failed load waits for the next."""
MOST_STARTS = 100
ROUNDS = 20
"""How often clients that are turned away connect again before time has to pass."""


class _Serials:
    """Counts the sockets of each node by itself, as processes do."""

    def __init__(self) -> None:
        self._counts: dict[int, Iterator[int]] = {}

    def __next__(self) -> int:
        return next(self._counts.setdefault(id(owner_of_tasks.get()), itertools.count(1)))


class _Mark:
    """The mark of a process, for each node its own."""

    def __init__(self, world: NodesWorld) -> None:
        self._world = world

    def __format__(self, _: str) -> str:
        own = owner_of_tasks.get()
        return next((f"n{run.number}" for run in self._world.server_runs if run.tasks is own), "?")


@contextmanager
def _nodes_of_their_own(world: NodesWorld) -> Iterator[None]:
    """Give each node the clocks and the counters of a process of its own."""
    times = SimpleNamespace(time=lambda: own_clock.get().wall())
    with (
        patch.object(node_lease, "_now", lambda: own_clock.get().seconds()),
        patch.object(node_lease, "time", times),
        patch.object(websocket, "_serials", _Serials()),
        patch.object(websocket, "_process_mark", _Mark(world)),
    ):
        yield


async def play_nodes(world: NodesWorld, loop: TimedLoop) -> None:
    """Play one seed, from an empty database to the last check."""
    world.kept = DatabaseView(world.database)  # type: ignore[assignment] # the reads that the checks need
    with _nodes_of_their_own(world):
        for slot in range(len(world.nodes)):
            world.start_node(slot)
        await loop.quiet()
        half_open: list[Link] = []
        flown = 0.0
        for _ in range(world.chance.choice((30, 80, 80, 200))):
            await _let_nodes_live(world)
            _step(world, half_open)
            if world.chance.random() < 0.1:
                await loop.quiet()
            if world.chance.random() < 0.3:
                flown = await _pass_time(world, loop, flown)
            for _ in range(world.chance.choice((0, 1, 3, 10, 30))):
                await asyncio.sleep(0)
        if world.chance.random() < 0.5:
            await _leave_alone(world, loop)
        await _settle(world, loop, half_open)
        await check_log(world)
        check_nodes(world)
        observer = SimulatedTab("observer", world.agents[0], Random(0))
        observer.behave()
        world.tabs.append(observer)
        await _drain(world, loop)
        await loop.advance(1.0)
        await _drain(world, loop)
        await check_tabs(world, world.tabs)
        check_chunks_fit(world)
        await check_log_readers(world)
        await _stop(world, loop)


async def _let_nodes_live(world: NodesWorld) -> None:
    """Start, crash, pause and stop nodes, and disturb their networks."""
    faults, chance = world.node_faults, world.chance
    for slot, run in enumerate(world.nodes):
        if run is None:
            if chance.random() < 0.3:
                world.start_node(slot)
        elif run.is_dead or run.has_failed or (run.stopping is not None and run.stopping.done()):
            await _end(world, run)
            world.nodes[slot] = None
        elif chance.random() < faults.crash:
            world.crash(run)
        elif world.loop.is_paused(run.tasks):
            continue
        elif chance.random() < faults.pause:
            world.pause(run, world.lease * chance.choice((0.1, 0.5, 1.1, 1.5, 3.0)))
        elif run.is_open and run.stopping is None and chance.random() < faults.drain:
            world.note(f"server {run.number} is stopped")
            run.stopping = asyncio.create_task(run.stop())
        elif chance.random() < faults.network:
            world.disturb_network(run)
    if chance.random() < faults.network:
        world.cut_a_link()
    if chance.random() < faults.clock:
        world.set_database_clock_back()


async def _end(world: NodesWorld, run: NodeRun) -> None:
    for name in await run.end():
        world.report_problem("leaks", f"{name} would not be cancelled")
    for link in run.links:
        link.lose_server(len(link.down))


def _step(world: NodesWorld, half_open: list[Link]) -> None:
    """Do one random thing outside of the nodes."""
    chance, tab = world.chance, world.chance.choice(world.tabs)
    draw = chance.random()
    if draw < 0.25:
        world.note(f"{tab.name} {tab.act()}")
    elif draw < 0.30:
        if tab.link is not None and not world.is_stuck(tab.link):
            link = world.drop(tab)
            if not link.is_cut:
                half_open.append(link)
    elif draw < 0.34 and half_open:
        half_open.pop(chance.randrange(len(half_open))).tell()
    elif draw < 0.42:
        waiting = [name for name, gate in world.gates.items() if not gate.is_set()]
        if waiting:
            name = chance.choice(waiting)
            world.note(f"gate {name} opens")
            world.gates[name].set()
    elif draw < 0.50:
        tab.release()
    elif draw < 0.54:
        world.schedule_job()
    elif draw < 0.58:
        _use_without_a_tab(world)
    elif tab.link is None:
        world.connect(tab)
    else:
        _deliver_some(world, tab)


def _use_without_a_tab(world: NodesWorld) -> None:
    """Let a server's own code or a log reader do something."""
    chance = world.chance
    agent = chance.choice(world.agents)
    run = world.owner_run(agent)
    if run is None:
        return
    if world.server_code is not None and chance.random() < 0.5:
        world.note(f"server {run.number} asks {world.server_code.act(run, agent)}")
    for reader in world.log_readers:
        owner = world.owner_run(reader.agent)
        if chance.random() < 0.3:
            reader.drop()
        elif owner is not None and reader.connect(owner):
            world.note(f"a reader of {reader.agent} goes on after {reader.seen[-1:]}")


def _deliver_some(world: NodesWorld, tab: SimulatedTab) -> None:
    """Let some frames of a link arrive."""
    for _ in range(world.chance.choice((1, 1, 2, 5, 20))):
        link = tab.link
        if link is None or world.is_stuck(link):
            return
        if link.up and world.chance.random() < 0.5:
            world.deliver_up(link)
        elif link.down and not tab.stops_reading:
            world.deliver_down(tab)


async def _pass_time(world: NodesWorld, loop: TimedLoop, flown: float) -> float:
    """Let time pass; nothing is in flight for longer than `LONGEST_FLIGHT`. Returns for how long it may be now."""
    wait = world.chance.choices((0.001, 0.01, 0.05, 0.2, 1.0, world.lease), (3, 3, 3, 4, 3, 1))[0]
    flown += wait
    if flown > LONGEST_FLIGHT:
        flown = 0.0
        await _let_arrive(world, loop)
    await _advance(world, loop, wait)
    return flown


async def _advance(world: NodesWorld, loop: TimedLoop, seconds: float) -> None:
    await loop.advance(seconds)
    world.note_leases()
    check_relays(world)
    check_memory(world)


async def _let_arrive(world: NodesWorld, loop: TimedLoop) -> None:
    """Deliver all frames in flight, and those that they cause."""
    is_busy = True
    while is_busy:
        await loop.quiet()
        is_busy = False
        for tab in world.tabs:
            while tab.link is not None and tab.link.up and not world.is_stuck(tab.link):
                world.deliver_up(tab.link)
                is_busy = True
            while tab.link is not None and tab.link.down and not world.is_stuck(tab.link):
                world.deliver_down(tab)
                is_busy = True


async def _drain(world: NodesWorld, loop: TimedLoop, *, connects: bool = True) -> None:
    """Connect all tabs, deliver all frames and run all tasks until nothing is left to do."""
    is_busy, rounds = True, 0
    if not connects:
        await loop.quiet()
        return
    while is_busy and rounds < ROUNDS:
        await _let_arrive(world, loop)
        is_busy, rounds = False, rounds + 1
        for reader in world.log_readers:
            owner = world.owner_run(reader.agent)
            is_busy |= owner is not None and reader.connect(owner)
        for tab in world.tabs:
            is_busy |= tab.link is None and world.connect(tab)


async def _leave_alone(world: NodesWorld, loop: TimedLoop) -> None:
    """Let all clients leave, and go on with faults for a while: everything that is open ends without a client."""
    world.note("all clients leave")
    for tab in world.tabs:
        if tab.link is not None:
            tab.link.lose_client(len(tab.link.up), told=True)
            tab.disconnect()
    for reader in world.log_readers:
        reader.drop()
    for _ in range(world.chance.choice((5, 20))):
        await _let_nodes_live(world)
        if world.chance.random() < 0.2:
            world.open_gates()
        await _advance(world, loop, world.chance.choice((0.01, 0.1, 0.4, 1.0, world.lease)))
    await _end_faults(world, loop)
    await _let_time_pass(world, loop, connects=False)
    await check_endings(world)
    check_woken(world)


async def _end_faults(world: NodesWorld, loop: TimedLoop) -> None:
    world.note("no more faults")
    world.node_faults, world.gates_stay_open = NodeFaults(), True
    world.open_gates()
    world.cut_links.clear()
    for run in world.live_runs():
        run.wire.become("fast")
        run.wire.loss = 0.0
        loop.resume(run.tasks)
    for _ in range(MOST_STARTS):
        await _let_nodes_live(world)
        await _advance(world, loop, 0.5)
        if len(world.open_runs()) == len(world.nodes):
            break
    else:
        world.report_problem("stalled", "not every node could be started")


async def _settle(world: NodesWorld, loop: TimedLoop, half_open: list[Link]) -> None:
    """End all faults, and let every turn end."""
    for link in half_open:
        link.tell()
    for tab in world.tabs:
        tab.behave()
    await _end_faults(world, loop)
    await _let_time_pass(world, loop, WAITS[:-1])
    for tab in world.tabs:
        tab.ask_again()
    await _let_time_pass(world, loop)


async def _let_time_pass(
    world: NodesWorld, loop: TimedLoop, longer: Sequence[float] = WAITS, *, connects: bool = True
) -> None:
    """Let time pass until the trace has not grown for longer than every timeout."""
    waits, head = deque(longer), -1
    while waits:
        await _drain(world, loop, connects=connects)
        if len(world.trace) != head:
            waits, head = deque(longer), len(world.trace)
        await _advance(world, loop, waits.popleft())
    await _drain(world, loop, connects=connects)


async def _stop(world: NodesWorld, loop: TimedLoop) -> None:
    for tab in world.tabs:
        if tab.link is not None:
            tab.link.lose_client(0, told=True)
    for reader in world.log_readers:
        reader.drop()
    for run in world.live_runs():
        await run.stop()
        await loop.advance(1.0)
        for name in run.running():
            world.report_problem("leaks", f"{name} still runs after server {run.number} was closed")
