"""A world of two to four nodes that share a database: what happens to them, and what is noted for the checks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from ...errors import EverywordError
from ...events import JobAdded, JobEnded, JobStarted, TurnAccepted, decode_event
from ...ids import AgentId, Incarnation, JobId
from ...log.postgres.row_codec import stored_events
from ...runtime.agent_runtime.agent_runtime import AgentRuntime
from ...runtime.directory import Settings
from ..simulated_postgres.server import SimulatedPostgres
from ..simulated_postgres.tables import EventRecord
from .answers import Model
from .network import Link
from .node_run import NodeRun
from .node_wire import WireState
from .server_run import ServerRun
from .tabs import SimulatedTab
from .timed_loop import BEGIN, TimedLoop, TrueClock
from .world import RunEnvironment, World

__all__ = ["NodeFaults", "NodesWorld", "WrittenLog"]


LATEST = 6_000
"""Milliseconds that the database's clock may be behind the true time."""


@dataclass(slots=True)
class NodeFaults:
    """Probabilities of faults per step; of a transaction that takes long, and of a lost connection per call."""

    crash: float = 0.0
    pause: float = 0.0
    drain: float = 0.0
    network: float = 0.0
    slow_commit: float = 0.0
    lost_call: float = 0.0
    clock: float = 0.0
    """Of a database whose clock is set back."""

    @staticmethod
    def drawn(chance: Random) -> NodeFaults:
        if chance.random() < 0.2:
            return NodeFaults()
        some = (0.0, 0.02, 0.08)
        crash, pause, drain, network = (chance.choice(some) for _ in range(4))
        slow, lost, clock = (0.0, 0.05, 0.3), (0.0, 0.0, 0.02, 0.1), (0.0, 0.0, 0.02)
        return NodeFaults(crash, pause, drain, network, chance.choice(slow), chance.choice(lost), chance.choice(clock))


@dataclass(slots=True)
class WrittenLog:
    """What was committed to one agent's log, as the database saw it."""

    seq: int = 0
    at: int = 0
    epoch: int = 0
    owners: dict[int, int] = field(default_factory=dict)
    """The incarnation that wrote each epoch."""
    starts: dict[str, int] = field(default_factory=dict)
    """Jobs that have started and not ended: the epoch of the last start."""
    jobs: set[str] = field(default_factory=set)
    """Jobs that are not finished."""


class NodesWorld(World):
    """The simulated world of one seed, with several nodes. `server` is one of them, drawn for each step."""

    loop: TimedLoop
    database: SimulatedPostgres
    nodes: list[NodeRun | None]
    lease: float
    settings: Settings
    node_faults: NodeFaults
    written: dict[str, WrittenLog]
    gone: dict[int, float]
    """Incarnations that were declared gone, or have left, and when."""
    edges: dict[Link, NodeRun]
    """The node that each client is connected to."""
    origins: dict[str, str]
    """The client of each socket that has asked something, by the socket's serial."""
    cut_links: set[tuple[int, int]]
    job_runs: Counter[str]
    asked_jobs: int
    database_late: float = 0.0
    """Milliseconds that the database's clock is behind the true time."""

    @staticmethod
    def of(seed: int, chance: Random, loop: TimedLoop) -> NodesWorld:
        """Draw a world: nodes, agents, tabs, rules and faults."""
        world = NodesWorld(seed, chance)
        drawn = World.drawn(seed, chance)
        world.rules, world.agents, world.retention = drawn.rules, drawn.agents, drawn.retention
        world.server_code, world.log_readers, world.tabs = drawn.server_code, drawn.log_readers, drawn.tabs
        world.loop, world.clock = loop, TrueClock(loop)  # type: ignore[assignment] # it is not turned by hand
        world.trace = [*drawn.trace]
        world.node_faults = NodeFaults.drawn(chance)
        world.lease = chance.choice((1.5, 3.0, 6.0))
        world.nodes = [None] * chance.choice((2, 2, 3, 4))
        world.written, world.gone, world.cut_links = {}, {}, set()
        world.edges, world.origins, world.job_runs, world.asked_jobs = {}, {}, Counter(), 0
        world.settings = Settings(
            grace=chance.choice((0, 2.0)),
            retention=world.retention,
            idle_after=chance.choice((1_000, 3_000, 60_000)),
            retry_at_most=4_000,
        )
        world.database = SimulatedPostgres(world._database_time, statement_timeout=world.lease / 3)
        world.database.work, world.database.on_commit = world._work, world._commit
        world.database.on_gone, world.database.end_backend = world._gone, world._end_backend
        world.note(f"{len(world.nodes)} nodes, lease {world.lease} s, {world.node_faults}")
        return world

    # -- the database ------------------------------------------------------------------------------------------------

    def _database_time(self) -> float:
        return BEGIN + self.loop.time() * 1000 - self.database_late

    def set_database_clock_back(self) -> None:
        """Correct the database's clock, as after a failover to a machine whose clock is behind."""
        back = self.chance.choice((50, 1_000, 5_000))
        if self.database_late + back > LATEST:
            return
        self.disturb(f"the database's clock is set back by {back} ms")
        self.database_late += back

    async def _work(self, backend: int) -> None:
        if self.chance.random() < self.node_faults.slow_commit:
            # The longest one is a disk that hangs in a flush: no timeout of the database ends that.
            await asyncio.sleep(self.chance.choice((0.01, 0.1, 0.5, self.lease / 4, self.lease / 2, self.lease * 1.2)))

    def _commit(self, node: int, agent: str, events: Sequence[EventRecord]) -> None:
        log = self.written.setdefault(agent, WrittenLog())
        if node in self.gone:
            self.report_problem("N-2", f"node {node} is gone and writes to {agent}")
        for event in events:
            if event.epoch < log.epoch or log.owners.setdefault(event.epoch, node) != node:
                self.report_problem("N-1", f"{agent}: node {node} writes epoch {event.epoch} after epoch {log.epoch}")
            if event.at < log.at:
                self.report_problem("time", f"{agent}: time goes back from {log.at} to {event.at}")
            if event.seq - event.more != log.seq + 1:
                self.report_problem("N-3", f"{agent}: event {event.seq - event.more} follows {log.seq}")
            log.seq, log.at, log.epoch = event.seq, max(log.at, event.at), max(log.epoch, event.epoch)
        for stored in stored_events(event.sent for event in events):
            decoded = decode_event(stored.body)
            self.remember(agent, decoded)
            self._check_origin(agent, decoded)
            self._follow_job(agent, log, decoded)
            self.note(f"{agent} commits {stored.seq} {stored.body.decode()} (node {node})")

    def _check_origin(self, agent: str, event: object) -> None:
        """Check that a serial names a socket of one client: the logs have the serials of all nodes, side by side."""
        if isinstance(event, TurnAccepted) and event.origin is not None and event.owner is not None:
            owner = self.origins.setdefault(event.origin, event.owner)
            if owner != event.owner:
                self.report_problem("ids", f"{agent}: {event.origin} is a socket of {owner} and of {event.owner}")

    def _follow_job(self, agent: str, log: WrittenLog, event: object) -> None:
        match event:
            case JobAdded():
                log.jobs.add(event.job)
            case JobStarted():
                if log.starts.get(event.job) == log.epoch:
                    self.report_problem("jobs", f"{agent}: job {event.job} was started twice by one owner")
                log.starts[event.job] = log.epoch
            case JobEnded():
                log.starts.pop(event.job, None)
                if event.due is None:
                    log.jobs.discard(event.job)
            case _:
                pass

    def _gone(self, node: int) -> None:
        self.note(f"node {node} is gone")
        self.gone[node] = self.loop.time()
        for run in self.live_runs():
            if run.nodes.incarnation == node and run.is_valid:
                self.report_problem("N-4", f"node {node} was declared gone while it holds its lease")

    def _end_backend(self, backend: int) -> None:
        for run in self.live_runs():
            for connection in list(run.wire.connections):
                if connection.backend == backend:
                    self.note(f"the database ends a connection of server {run.number}")
                    connection.end_backend()

    # -- nodes -------------------------------------------------------------------------------------------------------

    def live_runs(self) -> list[NodeRun]:
        return [run for run in self.nodes if run is not None and not run.is_dead]

    def open_runs(self) -> list[NodeRun]:
        return [run for run in self.live_runs() if run.is_open]

    def start_node(self, slot: int) -> None:
        box: list[ServerRun] = []
        models: dict[AgentId, Model] = {}

        def responder(agent: AgentId) -> Model:
            return models.setdefault(agent, Model(NodeEnvironment(self, box), self.seed, self.rules))

        number = len(self.server_runs) + 1
        self.note(f"server {number} starts")
        run = NodeRun(
            number,
            self.database,
            responder,
            self.settings,
            lease=self.lease,
            chance=self.chance,
            find=self._find,
        )
        box.append(run)
        run.wire.loss = self.node_faults.lost_call
        run.wire.on_loss = lambda name: self.disturb(f"server {number} loses the connection of {name}")
        self.nodes[slot] = run
        self.server_runs.append(run)

    def _find(self, edge: NodeRun, incarnation: Incarnation) -> NodeRun | None:
        """Return the node of an incarnation, if a link leads there."""
        for run in self.live_runs():
            if run.nodes.incarnation == incarnation and (edge.number, run.number) not in self.cut_links:
                return run
        return None

    def owner_run(self, agent: str) -> NodeRun | None:
        """Return the node that owns an agent; another one that is open if none does."""
        found = self.database.tables.agent(agent)
        open_runs = self.open_runs()
        owner = [run for run in open_runs if found is not None and run.nodes.incarnation == found.node]
        return owner[0] if owner else self.chance.choice(open_runs) if open_runs else None

    def crash(self, run: NodeRun) -> None:
        self.disturb(f"server {run.number} crashes")
        run.die()
        self.loop.resume(run.tasks)
        for link in run.links:
            link.lose_server(self.chance.randrange(len(link.down) + 1))

    def pause(self, run: NodeRun, seconds: float) -> None:
        self.disturb(f"server {run.number} is paused for {seconds:.2f} s")
        self.loop.pause(run.tasks)
        self.loop.call_later(seconds, self._resume, run)

    def _resume(self, run: NodeRun) -> None:
        if self.loop.is_paused(run.tasks):
            self.note(f"server {run.number} goes on")
            self.loop.resume(run.tasks)

    def disturb_network(self, run: NodeRun) -> None:
        state: WireState = self.chance.choice(("slow", "silent", "no heartbeats"))
        if self.chance.random() < 0.3:
            self.disturb(f"server {run.number} loses its connections")
            run.wire.cut()
            return
        seconds = self.lease * self.chance.choice((0.2, 0.6, 1.1, 1.5, 3.0))
        self.disturb(f"the network of server {run.number} is {state} for {seconds:.2f} s")
        run.wire.become(state)
        self.loop.call_later(seconds, run.wire.become, "fast")

    def cut_a_link(self) -> None:
        """Cut the link between two nodes, with the sockets on it, for a while."""
        relays = [(run, link, to) for run in self.live_runs() for link, to in run.relays.items()]
        if not relays:
            return
        edge, link, incarnation = self.chance.choice(relays)
        owner = self._find(edge, incarnation)
        self.disturb(f"the link of server {edge.number} to node {incarnation} is cut")
        link.lose_server(self.chance.randrange(len(link.down) + 1))
        if owner is not None:
            pair = edge.number, owner.number
            self.cut_links.add(pair)
            self.loop.call_later(self.chance.choice((0.1, 1.0, 4.0)), self.cut_links.discard, pair)

    # -- clients -----------------------------------------------------------------------------------------------------

    def connect(self, tab: SimulatedTab) -> bool:
        runs = self.open_runs()
        if not runs or tab.link is not None:
            return False
        self.server = edge = self.chance.choice(runs)
        is_connected, link = super().connect(tab), edge.links[-1]
        self.edges[link] = edge
        return is_connected

    def is_stuck(self, link: Link) -> bool:
        """Tell whether frames of this link do not move: its node is paused."""
        edge = self.edges.get(link)
        return edge is not None and self.loop.is_paused(edge.tasks)

    def schedule_job(self) -> None:
        """Let an agent's own code schedule a job."""
        agent = self.chance.choice(self.agents)
        run = self.owner_run(agent)
        if run is None:
            return
        self.asked_jobs += 1
        job, jobs = JobId(f"j{self.asked_jobs}"), AgentRuntime(run.directory, AgentId(agent)).jobs
        due = self.clock.now() + self.chance.choice((0, 300, 2_000, 9_000))
        self.note(f"{agent} schedules {job}")
        _ = run.start(_ignore_errors(lambda: jobs.add(job, "once", "tick", due)))

    def _sent(self, tab: SimulatedTab, text: str) -> None:
        super()._sent(tab, text)
        link = tab.link
        for run in self.live_runs():
            if link is not None and link in run.links and link not in run.relays:
                self.check_valid(run, f"sends to {tab.name}: {text}")

    def check_valid(self, run: NodeRun, what: str) -> None:
        """Check N-4: without its lease a node serves and starts nothing, from the next moment on."""
        since = run.invalid_since
        if since is not None and self.loop.time() > since and not run.is_valid and not run.is_dead:
            self.report_problem("N-4", f"server {run.number} has no lease since {since:.3f} and {what}")

    def note_leases(self) -> None:
        """Note which nodes have no lease; called when nothing runs."""
        for run in self.open_runs():
            if not self.loop.is_paused(run.tasks):
                run.invalid_since = None if run.is_valid else run.invalid_since or self.loop.time()


class NodeEnvironment(RunEnvironment):
    """The world, as the answers of one node see it."""

    _world: NodesWorld

    def touch(self, key: str) -> None:
        for run in self._run:
            assert isinstance(run, NodeRun)
            self._world.check_valid(run, f"does {key}")
        if key.startswith("job "):
            self._world.job_runs[key] += 1
        super().touch(key)


async def _ignore_errors(ask: Callable[[], Awaitable[object]]) -> None:
    try:
        await ask()
    except EverywordError:
        return
