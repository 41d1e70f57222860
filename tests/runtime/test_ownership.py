"""Families that a node has and gives back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from everyword.ids import AgentId, Incarnation, Millis, root_id
from everyword.log.memory import MemoryLog
from everyword.log.nodes import LiveNode, NodeListener
from everyword.runtime import wake_scheduler
from everyword.testing import ManualClock, ScriptedResponder
from tests.runtime.facts import rounds
from tests.runtime.kit import PATIENCE, running

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
