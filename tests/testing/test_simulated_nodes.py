"""The simulated PostgreSQL agrees with a real one: nodes that do the same on both get the same, after any history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from everyword.errors import LogError, OwnedElsewhere
from everyword.events import TurnKind
from everyword.ids import AgentId, Epoch, Millis, Seq, TurnId, sub_agent_id
from everyword.log.base import UNCHANGED, Activation, Unchanged
from everyword.log.nodes import LiveNode, NodeMembership
from everyword.log.postgres.store import PostgresLog
from everyword.testing.simulated_postgres.connections import node_store
from everyword.testing.simulated_postgres.server import SimulatedPostgres
from tests.log.building import FOREVER, A, B, Owner, agent_row, chunk, fact, message_row, read_all, state, turn_row
from tests.log.postgres.takeover import declare_gone, node_of
from tests.postgres.fixtures import drop_schema
from tests.postgres.server import Postgres
from tests.timeouts import PATIENCE

LEASE = 600.0
"""Seconds. The event loop stands still between two steps, so no heartbeat may be missed."""

BELOW = sub_agent_id(A, "helper", "x")
NODES = st.integers(0, 2)
AGENTS = st.sampled_from([A, B, BELOW])
WAKES = st.sampled_from([None, Millis(0), UNCHANGED]) | st.integers(1, 50).map(Millis)

Ask = Callable[[PostgresLog], Awaitable[object]]
Pair = tuple[PostgresLog, PostgresLog]


class NodesAgree(RuleBasedStateMachine):
    """Three nodes on each database. Each step is done by the same node of both."""

    server: Postgres

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.schema = f"t_{uuid4().hex[:12]}"
        self.simulated = SimulatedPostgres()
        self.nodes: list[Pair] = []
        self.owners: dict[tuple[int, AgentId], tuple[Owner, Owner]] = {}
        self.turns: dict[AgentId, int] = {}
        self.now = 1

    def open(self) -> Pair:
        real = PostgresLog(f"{self.server.url}&schema={self.schema}", lease=LEASE)
        pair = node_store(self.simulated, lease=LEASE), real
        for store in pair:
            self.runner.run(store.open())
        assert node_of(pair[0]) == node_of(pair[1])
        return pair

    @initialize()
    def start(self) -> None:
        self.nodes = [self.open() for _ in range(3)]

    def teardown(self) -> None:
        for pair in self.nodes:
            for store in pair:
                self.runner.run(store.aclose())
        self.runner.run(drop_schema(self.server, self.schema))
        self.runner.close()

    def both(self, node: int, ask: Ask) -> object:
        """Let a node do something on both databases; results and errors must be the same."""
        results = [self.runner.run(answer(store, ask)) for store in self.nodes[node]]
        assert results[0] == results[1]
        return results[0]

    def append(self, node: int, agent: AgentId, *entries: object, **options: object) -> None:
        """Append as the node's last activation allows it, if there was one: it may be out of date."""
        if (owners := self.owners.get((node, agent))) is not None:
            results = [self.runner.run(appended(owner, entries, options)) for owner in owners]
            assert results[0] == results[1]

    # -- one owner per family ----------------------------------------------------------------------------------------

    @rule(node=NODES, agent=AGENTS)
    def activate(self, node: int, agent: AgentId) -> None:
        loaded = self.both(node, lambda store: activated(store, agent))
        if isinstance(loaded, Activation):
            simulated, real = self.nodes[node]
            self.owners[node, agent] = Owner(simulated, agent, loaded), Owner(real, agent, loaded)

    @rule(node=NODES, agents=st.lists(st.sampled_from([A, B]), unique=True))
    def release(self, node: int, agents: list[AgentId]) -> None:
        self.both(node, lambda store: members(store).release(agents))

    @rule(node=NODES, until=st.integers(0, 60) | st.just(FOREVER), limit=st.integers(1, 3))
    def claim(self, node: int, until: int, limit: int) -> None:
        self.both(node, lambda store: claimed(store, until, limit))

    @rule(node=NODES)
    def declare_gone(self, node: int) -> None:
        """Another node declares this one gone. It does not know, tries to write, and begins anew."""
        simulated, real = self.nodes[node]
        record = self.simulated.tables.nodes[node_of(simulated)]
        record.until = 0
        assert self.runner.run(self.simulated.run(0, "declare_gone", [record.id]))[0][0]
        self.runner.run(declare_gone(self.server, self.schema, real))
        for agent in (A, B, BELOW):
            self.append(node, agent, fact("late"), at=self.now)
        for store in self.nodes[node]:
            self.runner.run(registered_anew(store, record.id))
        assert node_of(simulated) == node_of(real)

    @rule(node=NODES)
    def leave(self, node: int) -> None:
        for store in self.nodes[node]:
            self.runner.run(store.aclose())
        self.nodes[node] = self.open()

    @rule(node=NODES, agent=AGENTS)
    def destroy(self, node: int, agent: AgentId) -> None:
        if (owners := self.owners.get((node, agent))) is not None:
            epoch = Epoch(owners[0].epoch)
            self.both(node, lambda store: store.destroy(agent, epoch))

    # -- logs --------------------------------------------------------------------------------------------------------

    @rule(node=NODES, agent=AGENTS, wake=WAKES, is_rsm=st.booleans())
    def accept(self, node: int, agent: AgentId, wake: Millis | Unchanged | None, is_rsm: bool) -> None:
        turn = self.turns[agent] = self.turns.get(agent, 0) + 1
        row = turn_row(turn, kind=TurnKind.RSM if is_rsm else TurnKind.CHAT)
        rows = [row, message_row(turn * 2), agent_row(last_turn=turn)]
        entries = fact("turn.accepted", turn), *(chunk(turn, index) for index in range(3))
        self.append(node, agent, *entries, rows=rows, at=self.now, wake=wake)

    @rule(node=NODES, agent=AGENTS, back=st.integers(0, 3), wake=WAKES)
    def end(self, node: int, agent: AgentId, back: int, wake: Millis | Unchanged | None) -> None:
        turn = self.turns.get(agent, 0) - back
        if turn > 0:
            row = turn_row(turn, "completed", ended_at=Millis(self.now))
            self.append(node, agent, fact("turn.ended", turn), rows=[row], at=self.now, wake=wake)

    @rule(node=NODES, agent=AGENTS, value=st.integers(1, 9))
    def set_state(self, node: int, agent: AgentId, value: int) -> None:
        self.append(node, agent, state({"n": value}), at=self.now)

    @rule(time=st.integers(1, 5))
    def tick(self, time: int) -> None:
        self.now += time

    @rule(node=NODES, age=st.integers(0, 8), limit=st.integers(1, 12))
    def prune(self, node: int, age: int, limit: int) -> None:
        self.both(node, lambda store: store.prune(Millis(self.now - age), limit=limit))

    @rule(node=NODES, agent=AGENTS, limit=st.integers(1, 3))
    def erase_streams(self, node: int, agent: AgentId, limit: int) -> None:
        self.both(node, lambda store: store.erase_streams(agent, Millis(self.now), limit=limit))

    @invariant()
    def every_question_has_one_answer(self) -> None:
        for node in range(len(self.nodes)):
            self.both(node, everything if node == 0 else wake_times)


async def answer(store: PostgresLog, ask: Ask) -> object:
    try:
        return await ask(store)
    except OwnedElsewhere as exc:
        return OwnedElsewhere, exc.node
    except LogError as exc:
        return type(exc)


async def appended(owner: Owner, entries: tuple[object, ...], options: dict[str, object]) -> object:
    try:
        await owner.append(*entries, **options)  # type: ignore[arg-type] # entries
    except LogError as exc:
        return type(exc)
    return None


class Listener:
    """A `NodeListener` that notes when other nodes live than before: this one may be new among them."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    def lost_lease(self, why: str) -> None: ...

    def nodes_changed(self, nodes: Sequence[LiveNode]) -> None:
        self.changed.set()


async def registered_anew(store: PostgresLog, old: int) -> None:
    """Wait until a node that was declared gone has noticed, and has a lease again."""
    listener = Listener()
    members(store).listen(listener)
    store._node.look_again()
    async with asyncio.timeout(PATIENCE):
        while node_of(store) == old or not members(store).is_valid:
            listener.changed.clear()
            await listener.changed.wait()


async def activated(store: PostgresLog, agent: AgentId) -> Activation:
    """Activate an agent; the wake times of a family come in any order."""
    loaded = await store.activate(agent, recent=3)
    return msgspec.structs.replace(loaded, wakes=sorted(loaded.wakes))


async def claimed(store: PostgresLog, until: int, limit: int) -> object:
    return sorted(await members(store).claim(Millis(until), limit))


def members(store: PostgresLog) -> NodeMembership:
    assert store.nodes is not None
    return store.nodes


async def wake_times(store: PostgresLog) -> object:
    found = await store.due(FOREVER)
    nodes = [await members(store).locate(agent) for agent in (A, B, BELOW)]
    return found, [node.id if node is not None else None for node in nodes], await store.next_wake()


async def everything(store: PostgresLog) -> object:
    answers: list[object] = [await wake_times(store), await store.agents(), await store.agents_named("chat/")]
    answers += [await members(store).next_claim(Millis(after), Millis(45)) for after in (0, 20)]
    for agent in (A, B, BELOW):
        answers += [await read_all(store, agent, limit=1000), await store.read(agent, Seq(2), 3)]
        answers += [await store.turns(agent), await store.conversation(agent), await store.kept(agent)]
        answers += [await store.read_turn(agent, TurnId(1)), await store.has(agent)]
    return answers


TestNodesAgree = NodesAgree.TestCase
TestNodesAgree.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)


@pytest.fixture(autouse=True)
def _server(postgres_server: Postgres) -> None:
    NodesAgree.server = postgres_server
