"""The agents that this node may write, and where their logs end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ...ids import AgentId, root_id

__all__ = ["AgentLease", "AgentLeases", "OwnedRoot"]


@dataclass(slots=True, frozen=True)
class OwnedRoot:
    """A root agent that this node owns, and when it took it: the number of the taking."""

    key: int
    term: int


@dataclass(slots=True, eq=False)
class AgentLease:
    """The right to append to one agent's log."""

    key: int
    root: OwnedRoot
    epoch: int
    head: int
    parts: dict[int, int] = field(default_factory=dict)
    """The partitions of the chunks of open turns, except those that lie in 0."""


class AgentLeases:
    """Leases by agent. A lease that is not here was lost or given up; writing needs a new one."""

    def __init__(self) -> None:
        self._leases: dict[AgentId, AgentLease] = {}
        self._roots: dict[AgentId, OwnedRoot] = {}

    def get(self, agent: AgentId, epoch: int) -> AgentLease | None:
        """Return the lease, if it has this epoch."""
        lease = self._leases.get(agent)
        return lease if lease is not None and lease.epoch == epoch else None

    def find(self, agent: AgentId) -> AgentLease | None:
        """Return the agent's lease, whatever its epoch; may be called from any thread."""
        return self._leases.get(agent)

    def put(self, agent: AgentId, lease: AgentLease) -> None:
        self._leases[agent] = lease
        self._roots[root_id(agent)] = lease.root

    def put_root(self, root: AgentId, owned: OwnedRoot) -> None:
        """Note that this node owns a root agent, of which nothing may be loaded."""
        self._roots.setdefault(root, owned)

    def is_root_known(self, root: AgentId) -> bool:
        return root in self._roots

    @property
    def root_keys(self) -> list[int]:
        return [owned.key for owned in self._roots.values()]

    def drop(self, agent: AgentId) -> None:
        """Forget an agent whose log may have changed without us."""
        self._leases.pop(agent, None)

    def drop_keys(self, keys: Iterable[int]) -> None:
        lost = set(keys)
        for agent in [agent for agent, lease in self._leases.items() if lease.key in lost]:
            del self._leases[agent]

    def drop_families(self, roots: Collection[AgentId]) -> dict[AgentId, OwnedRoot]:
        """Forget root agents and everything below them; return those that were owned.

        One pass for all: thousands may be given back at once.
        """
        for agent in [agent for agent in self._leases if root_id(agent) in roots]:
            del self._leases[agent]
        return {root: self._roots.pop(root) for root in roots if root in self._roots}

    def clear(self) -> None:
        self._leases.clear()
        self._roots.clear()

    def __iter__(self) -> Iterator[AgentId]:
        return iter(self._leases)
