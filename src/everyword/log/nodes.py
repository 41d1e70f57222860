"""What a store that several nodes share tells each of them: which nodes live, and which agents are theirs.

A node is a process. It holds one lease in the store and renews it; agents belong to nodes, root agents with everything
below them. Without its lease a node writes nothing and serves nothing from memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..ids import AgentId, Incarnation, Millis

__all__ = ["LiveNode", "NodeListener", "NodeMembership"]


class LiveNode(msgspec.Struct, frozen=True):
    """One node that lives, as the store has it."""

    id: Incarnation
    name: str
    url: str
    """Where other nodes reach it; empty for a node that serves no others."""
    version: int
    """The newest version of the schema that it knows."""
    state: str
    """up or draining."""
    since: Millis
    left: int
    """Milliseconds until its lease ends."""


class NodeListener(Protocol):
    """Is told what happens to nodes. Called from the event loop; must not raise or wait."""

    def lost_lease(self, why: str) -> None:
        """Drop everything from memory: this node has no lease any more, or the store may have forgotten commits."""
        ...

    def nodes_changed(self, nodes: Sequence[LiveNode]) -> None:
        """The nodes that live now, this one included: the list has changed."""
        ...


class NodeMembership(Protocol):
    """This node among those that share the store."""

    @property
    def incarnation(self) -> Incarnation:
        """The id of this life of the node; another one after it has lost its lease. 0 before the store is open."""
        ...

    @property
    def name(self) -> str:
        """What people call this node."""
        ...

    @property
    def lease_left(self) -> float:
        """Seconds until the lease ends, by the clock of `is_valid`; 0 without a lease."""
        ...

    @property
    def is_valid(self) -> bool:
        """Whether the lease is held at this moment, by a clock that goes on while the machine sleeps."""
        ...

    @property
    def live(self) -> Sequence[LiveNode]:
        """The nodes that lived at the last heartbeat."""
        ...

    def announce(self, url: str) -> None:
        """Say where other nodes reach this one; before the store is opened."""
        ...

    async def shared_secret(self) -> bytes:
        """Return a secret that every node of this store can read; the first one makes it."""
        ...

    def listen(self, listener: NodeListener) -> None:
        """Tell the listener from now on."""
        ...

    def now(self) -> Millis:
        """Return the time by the store's clock, as of the last heartbeat; never goes back."""
        ...

    async def release(self, roots: Sequence[AgentId]) -> None:
        """Let go of these root agents and everything below them, after all their appends. The next node may take them.

        Nothing of them may be loaded any more.
        """
        ...

    async def claim(self, until: Millis, limit: int = 100) -> list[tuple[AgentId, Millis]]:
        """Take root agents that no live node owns, if they or agents below them are to be woken at or before `until`.

        Returns the wake times of all agents of the families that were taken. No two nodes take the same one.
        """
        ...

    async def next_claim(self, after: Millis, until: Millis) -> Millis | None:
        """Return the earliest wake time of agents that no live node owns, if one is later than `after` and not later
        than `until`."""
        ...

    async def locate(self, agent: AgentId) -> LiveNode | None:
        """Return the node that owns the agent; None if no live node does."""
        ...

    async def every_node_knows(self, version: int) -> bool:
        """Return whether every live node knows this version of the schema.

        Once that is true it stays true: nodes that do not know the version cannot join any more (N-6).

        Raises:
            LogError: the store cannot be asked.
        """
        ...

    async def begin_drain(self) -> None:
        """Note for the others that this node is about to leave."""
        ...
