"""One life of one node: a server over a store that others share, and the clients that it passes on to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from random import Random

from ...errors import AgentStopped, LogError, OwnedElsewhere
from ...ids import AgentId, Incarnation
from ...log.nodes import LiveNode, NodeMembership
from ...log.postgres.store import PostgresLog
from ...runtime.api import Responder
from ...runtime.directory import Settings
from ...runtime.ownership import Ownership
from ..simulated_postgres.connections import node_store
from ..simulated_postgres.server import SimulatedPostgres
from .loop import owner_of_tasks
from .network import Link
from .node_wire import NodeWire
from .server_run import ServerRun
from .timed_loop import OwnClock, own_clock

__all__ = ["NodeRun"]

LOOK_AGAIN = 0.5


class NodeRun(ServerRun):
    """A node from its start to its end. `find` returns the node of an incarnation, if this one reaches it."""

    def __init__(
        self,
        number: int,
        database: SimulatedPostgres,
        responders: Callable[[AgentId], Responder],
        settings: Settings,
        *,
        lease: float,
        chance: Random,
        find: Callable[[NodeRun, Incarnation], NodeRun | None],
    ) -> None:
        self.wire = NodeWire(chance)
        self.clock = OwnClock(chance.uniform(0, 1e6), chance.choice((0, 0, chance.uniform(-60, 60))))
        self.invalid_since: float | None = None
        """Since when it has had no lease, as of the last moment in which nothing ran."""
        self.stopping: asyncio.Task[None] | None = None
        self.relays: dict[Link, Incarnation] = {}
        """Sockets that other nodes serve, and the incarnation that serves each."""
        self._lease, self._find = lease, find
        self._incarnation = Incarnation(0)
        self._live: set[Incarnation] = set()
        self.gone_nodes: set[Incarnation] = set()
        """Incarnations that a heartbeat has missed: a socket is not passed on to them."""
        self._store: PostgresLog = node_store(database, self.wire, lease=lease, patience=0, name=f"node {number}")
        super().__init__(number, self._store, responders, None, settings)
        self.directory.fresh_context = self.new_context
        self.ownership.on_nodes = self.nodes_changed

    def new_context(self) -> Context:
        context = Context()
        context.run(owner_of_tasks.set, self.tasks)
        context.run(own_clock.set, self.clock)
        return context

    @property
    def nodes(self) -> NodeMembership:
        assert self._store.nodes is not None
        return self._store.nodes

    @property
    def ownership(self) -> Ownership:
        assert self.directory.ownership is not None
        return self.directory.ownership

    @property
    def has_failed(self) -> bool:
        """Whether it could not start."""
        return self._opening.done() and (self._opening.cancelled() or self._opening.exception() is not None)

    @property
    def is_open(self) -> bool:
        return super().is_open and not self.has_failed

    @property
    def is_valid(self) -> bool:
        return self._context.copy().run(lambda: self.nodes.is_valid)

    def die(self) -> None:
        super().die()
        self.wire.die()

    # -- clients -------------------------------------------------------------------------------------------------------

    def serve(self, link: Link, agent: str, owner: str) -> None:
        self.links.append(link)
        _ = self.start(self._serve(link, agent, owner))

    async def _serve(self, link: Link, agent: str, owner: str) -> None:
        """Serve the socket here, or let the owner of the agent do it; see `server.node_links.NodeLinks`."""
        until = asyncio.get_running_loop().time() + self._lease + 5
        while asyncio.get_running_loop().time() < until and not link.is_cut:
            self.ownership.changed.clear()
            try:
                target = await self._owner(AgentId(agent))
                if target is self:
                    await self.socket(link, agent, owner)
                    return
                if target is not None:
                    await self._relay(target, link, agent, owner)
                    return
            except OwnedElsewhere:
                pass  # another node was faster
            except AgentStopped:
                if self.nodes.is_valid:
                    break
            except LogError:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await self.ownership.changed.wait()
        link.close(1013)

    async def _owner(self, agent: AgentId) -> NodeRun | None:
        """Return the node that owns the agent, this one if it may; None if its owner cannot be reached."""
        if self.directory.usable(agent) is not None:
            return self
        found = await self.ownership.locate(agent)
        if found is not None:
            return self._find(self, found.id) if found.id not in self.gone_nodes else None
        (await self.directory.hold(agent))()
        return self

    async def _relay(self, target: NodeRun, link: Link, agent: str, owner: str) -> None:
        self.relays[link] = target.nodes.incarnation
        target.links.append(link)
        try:
            await asyncio.shield(target.start(target.socket(link, agent, owner)))
        finally:
            self.relays.pop(link, None)

    def nodes_changed(self, nodes: Sequence[LiveNode]) -> None:
        """Close the sockets that are served by an incarnation which is gone: it serves nothing, and may not say so."""
        live, before, self._incarnation = {node.id for node in nodes}, self._incarnation, self.nodes.incarnation
        self.gone_nodes |= self._live - live
        self._live = live
        for link, incarnation in list(self.relays.items()):
            if incarnation not in live or before != self._incarnation:
                self.cut_relay(link)

    def cut_relay(self, link: Link) -> None:
        link.lose_server(len(link.down))
