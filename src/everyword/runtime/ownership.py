"""What a directory does because other nodes share its store: it owns agents, gives them back, and may lose them all.

A node owns root agents with everything below them (a family). It takes a family when it loads one of its agents, or
when one of them is due and no live node owns it. It gives a family back when nothing of it is loaded any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from ..errors import AgentStopped, EverywordError, LogError
from ..ids import AgentId, Incarnation, Millis, root_id
from ..log.nodes import LiveNode, NodeMembership

if TYPE_CHECKING:
    from .directory import Directory

__all__ = ["NodeClock", "Ownership"]

log = logging.getLogger("everyword.nodes")

CLAIM_EVERY: Final = 1_000
"""Milliseconds after which a node looks at the latest for agents that are due and have no owner."""

CLAIM_AT_ONCE: Final = 100


class NodeClock:
    """The clock of the store that several nodes share: all of them have the same time."""

    def __init__(self, nodes: NodeMembership) -> None:
        self._nodes = nodes

    def now(self) -> Millis:
        return self._nodes.now()

    async def sleep_until(self, at: Millis) -> None:
        while (left := at - self.now()) > 0:  # noqa: ASYNC110 - waiting for time is the point
            await asyncio.sleep(min(left, 1_000) / 1000)  # the clock may be set by the next heartbeat


class Ownership:
    """The families that this node owns, for one directory. A `NodeListener`."""

    def __init__(self, directory: Directory, nodes: NodeMembership) -> None:
        self._directory, self.nodes = directory, nodes
        self._to_release: set[AgentId] = set()
        self._releasing: asyncio.Task[None] | None = None
        self.on_open: Callable[[], Awaitable[None]] = _nothing
        """Awaited when the store is open, before any agent is loaded: other nodes may ask for them from then on."""
        self.on_nodes: Callable[[Sequence[LiveNode]], None] = lambda nodes: None
        """Told which nodes live, by the part that holds links to them."""
        self.changed = asyncio.Event()
        """Set when other nodes live than before, and when this one has a new lease."""
        self._change: asyncio.Future[None] | None = None
        nodes.listen(self)

    def check(self, agent: AgentId) -> None:
        """Raise `AgentStopped` unless this node holds its lease: without it, memory may be behind the log."""
        if not self.nodes.is_valid:
            raise AgentStopped(f"unable to use {agent!r}; this node has lost its lease. Reconnect in a moment.")

    async def until_valid(self) -> None:
        """Wait until this node holds a lease."""
        while not self.nodes.is_valid:
            self.changed.clear()
            await self.changed.wait()

    def next_change(self) -> asyncio.Future[None]:
        """Return what is done at the next change of nodes or of this node's lease; all callers get the same."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def _tell_change(self) -> None:
        self.changed.set()
        change, self._change = self._change, None
        if change is not None and not change.done():
            change.set_result(None)

    async def locate(self, agent: AgentId) -> LiveNode | None:
        """Return the other node that owns the agent; None if it is this one or none."""
        node = await self.nodes.locate(agent)
        return None if node is None or node.id == self.nodes.incarnation else node

    def live_node(self, incarnation: Incarnation) -> LiveNode | None:
        return next((node for node in self.nodes.live if node.id == incarnation), None)

    # -- giving back -------------------------------------------------------------------------------------------------

    def unloaded(self, agent: AgentId, closed: Future[None] | None = None) -> None:
        """Give the agent's family back in a moment, unless something of it is loaded then.

        `closed` is done when the statements that its code has queued were run: they need the lease.
        """
        if closed is not None and not closed.done():
            loop = asyncio.get_running_loop()
            closed.add_done_callback(lambda _: loop.call_soon_threadsafe(self.unloaded, agent))
            return
        if self._directory.is_closed:
            return  # it goes with the node's lease
        self._to_release.add(root_id(agent))
        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.create_task(self._release(), name="release of agents")

    async def _release(self) -> None:
        while self._to_release:
            await asyncio.sleep(0)  # many are unloaded in the same iteration: one statement for all
            roots = self._to_release - self._directory.families()
            self._to_release.clear()
            if not roots or not self.nodes.is_valid or self._directory.is_closed:
                continue  # they go with the node's lease
            forgotten = self._directory.wakes.forget_families(roots)
            try:
                await self.nodes.release(sorted(roots))
            except LogError as exc:
                log.warning("unable to give %d agents back: %s", len(roots), exc)
                self._directory.wakes.add(forgotten)  # no other node wakes what this one may still own

    async def begin_drain(self) -> None:
        """Note for the other nodes that this one is about to leave."""
        try:
            await self.nodes.begin_drain()
        except EverywordError as exc:
            log.warning("unable to note that this node is stopping: %s", exc)

    async def aclose(self) -> None:
        """Wait until everything was given back that is to be."""
        if self._releasing is not None:
            await asyncio.wait([self._releasing])

    # -- taking ------------------------------------------------------------------------------------------------------

    async def claim(self, now: Millis) -> tuple[Sequence[tuple[AgentId, Millis]], Millis]:
        """Take what is due and has no owner; return the wake times that came with it, and when to look again."""
        if self._directory.is_stopping or not self.nodes.is_valid:
            return [], Millis(now + CLAIM_EVERY)
        found = await self.nodes.claim(now, CLAIM_AT_ONCE)
        if found:
            served = [wake for wake in found if self._directory.stored_ids.has_class(wake[0])]
            for agent in {agent for agent, _ in found} - {agent for agent, _ in served}:
                self.unloaded(agent)  # a node of another release may know its class
            return served, now if served else Millis(now + CLAIM_EVERY)
        at_latest = Millis(now + CLAIM_EVERY)
        coming = await self.nodes.next_claim(now, at_latest)
        return [], at_latest if coming is None else coming

    # -- what the store tells ------------------------------------------------------------------------------------------

    def lost_lease(self, why: str) -> None:
        """Drop everything from memory, at once; what was open goes on wherever it is claimed."""
        self._to_release.clear()
        self._directory.drop_all(AgentStopped(f"unable to go on; this node has lost its lease ({why}). Reconnect."))
        self._tell_change()

    def nodes_changed(self, nodes: Sequence[LiveNode]) -> None:
        self._tell_change()
        self._directory.wakes.look_again()
        self.on_nodes(nodes)


async def _nothing() -> None:
    pass
