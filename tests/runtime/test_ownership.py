"""Families that a node has and gives back; what other nodes see of its shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from everyword.ids import AgentId, Incarnation, Millis, RequestId, root_id
from everyword.log.base import Activation
from everyword.log.memory import MemoryLog
from everyword.log.nodes import LiveNode, NodeListener
from everyword.runtime import wake_scheduler
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import Gate, ManualClock, ScriptedResponder
from everyword.testing.simulated_postgres.connections import Wire, node_store
from everyword.testing.simulated_postgres.server import SimulatedPostgres
from tests.runtime.facts import eventually, rounds
from tests.runtime.kit import AGENT, PATIENCE, running, user

FAMILIES = [AgentId(f"chat/{number}") for number in range(100)]
TOMORROW = Millis(10**15)


class OnlyNode:
    """A `NodeMembership` that holds its lease for ever and notes what is given back."""

    incarnation = Incarnation(1)
    is_valid = True
    live: Sequence[LiveNode] = ()

    def __init__(self) -> None:
        self.released: list[AgentId] = []
        self.statements = 0
        self.has_released = asyncio.Event()

    def announce(self, url: str) -> None: ...

    async def shared_secret(self) -> bytes:
        return b""

    def listen(self, listener: NodeListener) -> None: ...

    def now(self) -> Millis:
        return Millis(0)

    async def release(self, roots: Sequence[AgentId]) -> None:
        self.released += roots
        self.statements += 1
        self.has_released.set()

    async def claim(self, until: Millis, limit: int = 100) -> list[tuple[AgentId, Millis]]:
        return []

    async def next_claim(self, after: Millis, until: Millis) -> Millis | None:
        return None

    async def locate(self, agent: AgentId) -> LiveNode | None:
        return None

    async def begin_drain(self) -> None: ...

    async def every_node_knows(self, version: int) -> bool:
        return True


async def test_families_that_are_given_back_together_cost_one_statement_and_one_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node may have ten thousand idle agents; a pass for each of them blocks the loop for longer than the lease."""
    looks = 0

    def counted(agent: AgentId) -> AgentId:
        nonlocal looks
        looks += 1
        return root_id(agent)

    monkeypatch.setattr(wake_scheduler, "root_id", counted)
    store, node, clock = MemoryLog(), OnlyNode(), ManualClock()
    store.nodes = node
    async with running(store, ScriptedResponder(["yes"]), clock) as directory, asyncio.timeout(PATIENCE):
        for agent in FAMILIES:
            async with directory.attach(agent):
                pass
            directory.wakes.remember(agent, TOMORROW)
        assert directory.families() == set(FAMILIES)
        clock.advance(directory.settings.idle_after / 1000 + 1)
        directory.unload_idle()
        await node.has_released.wait()
        await rounds()
        assert (sorted(node.released), node.statements) == (sorted(FAMILIES), 1)
        assert looks <= 2 * len(FAMILIES)
        assert not directory.wakes.knows(FAMILIES[0])


async def test_a_family_is_kept_while_an_agent_below_is_loaded() -> None:
    store, node, clock = MemoryLog(), OnlyNode(), ManualClock()
    store.nodes = node
    root, below = AgentId("chat/ann"), AgentId("chat/ann/sub/helper/bob")
    async with running(store, ScriptedResponder(["yes"]), clock) as directory, asyncio.timeout(PATIENCE):
        async with directory.attach(root):
            pass
        async with directory.attach(below):
            clock.advance(directory.settings.idle_after / 1000 + 1)
            directory.unload_idle()
            await rounds()
            assert directory.families() == {root} and not node.released
        clock.advance(directory.settings.idle_after / 1000 + 1)
        directory.unload_idle()
        await node.has_released.wait()
        assert node.released == [root]


async def test_a_family_is_kept_while_a_log_of_it_is_rewritten() -> None:
    store, node = MemoryLog(), OnlyNode()
    store.nodes = node
    begun, gate = Gate(), Gate()

    async def work(activation: Activation) -> None:
        begun.open()
        await gate.wait()

    async with running(store, ScriptedResponder(["yes"])) as directory, asyncio.timeout(PATIENCE):
        async with directory.attach(AGENT):
            pass
        rewriting = asyncio.create_task(directory.rewrite(AGENT, work))
        await begun.wait()
        await rounds()
        assert directory.families() == {root_id(AGENT)} and not node.released, "the rewriting needs the lease"
        gate.open()
        await rewriting


class LossyWire(Wire):
    """Loses the next statement of one name before it reaches the database."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.lost = asyncio.Event()

    async def up(self, name: str, lose: Callable[[], None]) -> None:
        if name == self._name and not self.lost.is_set():
            self.lost.set()
            raise OSError("the statement is lost")


async def test_a_node_that_could_not_give_an_agent_back_still_wakes_it() -> None:
    wire = LossyWire("release")
    store = node_store(SimulatedPostgres(), wire)
    other = AgentId(f"{AGENT}/sub/kid/x")
    async with asyncio.timeout(PATIENCE), Directory(store, ScriptedResponder(["yes"])) as directory:
        async with directory.attach(AGENT) as loaded:
            directory.wakes.remember(other, Millis(directory.clock.now() + 60_000))

        async def is_known() -> bool:
            return directory.wakes.knows(AGENT)

        loaded.actor.stop()
        await wire.lost.wait()
        await eventually(is_known)
        assert store.nodes is not None
        assert await store.nodes.locate(AGENT) is not None  # no other node wakes it


async def test_other_nodes_see_that_a_node_is_stopping() -> None:
    database, gate = SimulatedPostgres(), Gate()
    store = node_store(database)
    directory = Directory(store, ScriptedResponder([gate, "yes"]), settings=Settings(grace=PATIENCE))
    async with asyncio.timeout(PATIENCE):
        await directory.open()
        assert store.nodes is not None
        node = database.tables.nodes[store.nodes.incarnation]
        turn = asyncio.create_task(AgentRuntime(directory, AGENT).run_turn([user("u1")], request=RequestId("r1")))
        await gate.reached.wait()
        closing = asyncio.create_task(directory.aclose())

        async def is_draining() -> bool:
            return node.state == "draining"

        await eventually(is_draining)
        gate.open()
        assert (await turn).outcome.value == "completed"
        await closing
    assert node.state == "gone"
