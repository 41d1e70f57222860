"""This node among the others: which agents it may take, gives back, or finds elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...ids import AgentId, Incarnation, Millis, root_id
from ..nodes import LiveNode, NodeListener
from .agent_leases import AgentLeases, OwnedRoot
from .connection import Connector
from .node_lease import NodeLease
from .queries import Queries
from .writer import Fence, PostgresWriter

__all__ = ["Membership"]

SECRET_BYTES: Final = 32


class Membership:
    """The `NodeMembership` of a `PostgresLog`."""

    def __init__(
        self,
        node: NodeLease,
        connector: Connector,
        leases: AgentLeases,
        opened: Callable[[], tuple[PostgresWriter, Queries]],
    ) -> None:
        self._node, self._connector, self._leases, self._opened = node, connector, leases, opened
        self._listener: NodeListener | None = None
        self.may_own_unknown = False
        """True when a call without an answer may have taken agents that this node does not know of."""

    @property
    def incarnation(self) -> Incarnation:
        return self._node.incarnation

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def lease_left(self) -> float:
        return self._node.lease_left

    @property
    def is_valid(self) -> bool:
        return self._node.is_valid

    @property
    def live(self) -> Sequence[LiveNode]:
        return self._node.live

    def announce(self, url: str) -> None:
        self._node.announce(url)

    async def shared_secret(self) -> bytes:
        return await self._opened()[1].shared_secret(secrets.token_bytes(SECRET_BYTES))

    def listen(self, listener: NodeListener) -> None:
        self._listener = listener

    def tell_lost(self, why: str) -> None:
        if self._listener is not None:
            self._listener.lost_lease(why)

    def tell_change(self, nodes: Sequence[LiveNode]) -> None:
        if self._listener is not None:
            self._listener.nodes_changed(nodes)

    def now(self) -> Millis:
        return self._node.clock.now()

    async def release(self, roots: Sequence[AgentId]) -> None:
        async def release(connection: Any, fence: Fence) -> None:
            # When it is this job's turn: everything that was appended before is committed.
            owned = self._leases.drop_families(set(roots))
            values = [each.key for each in owned.values()], [each.term for each in owned.values()]
            try:
                await connection.execute(self._connector.sql["release"], *fence, *values)
            except BaseException:
                for root, found in owned.items():
                    self._leases.put_root(root, found)  # it may be ours still
                raise

        await self._opened()[0].submit("release agents", release)

    async def claim(self, until: Millis, limit: int = 100) -> list[tuple[AgentId, Millis]]:
        async def claim(connection: Any, fence: Fence) -> list[tuple[AgentId, Millis]]:
            found: list[Any] = []
            if self.may_own_unknown:
                values = fence[0], self._leases.root_keys
                found += await connection.fetch(self._connector.sql["wakes_of_unknown"], *values)
            self.may_own_unknown = True  # until the answer is here
            found += await connection.fetch(self._connector.sql["claim"], *fence, until, limit)
            self.may_own_unknown = False
            for row in found:
                self._leases.put_root(root_id(AgentId(row["id"])), OwnedRoot(row["root"], row["term"]))
            return [(AgentId(row["id"]), Millis(row["at"])) for row in found]

        claimed: list[tuple[AgentId, Millis]] = await self._opened()[0].submit("claim agents that are due", claim)
        return claimed

    async def next_claim(self, after: Millis, until: Millis) -> Millis | None:
        return await self._opened()[1].next_claim(after, until)

    async def locate(self, agent: AgentId) -> LiveNode | None:
        return await self._opened()[1].owner(root_id(agent))

    async def every_node_knows(self, version: int) -> bool:
        return await self._node.every_node_knows(version)

    async def begin_drain(self) -> None:
        await self._node.set_draining()
