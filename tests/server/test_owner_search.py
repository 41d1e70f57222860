"""How a node looks for the owner of an agent that it cannot reach."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from everyword.errors import LinkError
from everyword.ids import AgentId, Incarnation, Millis
from everyword.log.nodes import LiveNode
from everyword.runtime.ownership import Ownership
from everyword.server import node_links
from everyword.server.node_links import NodeLinks
from everyword.server.node_settings import NodeSettings
from tests.runtime.test_ownership import OnlyNode
from tests.timeouts import PATIENCE

AGENT = AgentId("chat/ann")
DEAD = LiveNode(Incarnation(7), "dead", "127.0.0.1:1", 1, "up", Millis(0), 5_000)


class OneOfTwo(OnlyNode):
    """A node whose store says where the agent is, and counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.owner: LiveNode | None = DEAD
        self.asked = 0

    async def locate(self, agent: AgentId) -> LiveNode | None:
        self.asked += 1
        return self.owner


class Unreachable:
    """Links that lead nowhere."""

    def __init__(self) -> None:
        self.tried = 0
        self.often = asyncio.Event()

    async def get(self, incarnation: Incarnation, url: str) -> Any:
        self.tried += 1
        if self.tried >= 5:
            self.often.set()
        raise LinkError("unable to link")


async def test_the_database_is_asked_again_when_nodes_change_not_at_every_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of sockets may wait for one dead node: their questions would keep the database busy meanwhile."""
    monkeypatch.setattr(node_links, "TRY_AGAIN", 0.001)
    node, dead, held = OneOfTwo(), Unreachable(), list[AgentId]()

    async def hold(agent: AgentId) -> Any:
        held.append(agent)
        return lambda: None

    directory: Any = SimpleNamespace(usable=lambda agent: None, hold=hold, wakes=SimpleNamespace(look_again=lambda: 0))
    directory.ownership = Ownership(directory, node)
    links: Any = NodeLinks(NodeSettings(), None, None)  # type: ignore[arg-type]
    links._directory, links._links = directory, dead
    async with asyncio.timeout(PATIENCE):
        looking = asyncio.create_task(links.owner(AGENT, takes=True))
        await dead.often.wait()
        assert (node.asked, held) == (1, [])
        node.owner = None
        directory.ownership.nodes_changed([])
        assert await looking is None
    assert (node.asked, held) == (2, [AGENT])
