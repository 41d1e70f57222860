"""What all requests and sockets of a running app share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..ids import AgentId
from ..runtime.directory import Directory
from .connected_clients import ConnectedClients
from .limits import Limits
from .memory_budget import MemoryBudget
from .open_connections import Close, OpenConnections
from .permissions import Permit
from .rate_limits import RateLimiter, TrafficLimiter
from .reader_limit import ReaderLimit
from .shared_slices import SharedSlices

if TYPE_CHECKING:
    from .node_group import NodeGroup
    from .node_links import NodeLinks

__all__ = ["Service"]


@dataclass(frozen=True, slots=True)
class Service:
    """The running agents, the counters behind `Limits`, and what clients share."""

    directory: Directory
    limits: Limits
    turn_rate: RateLimiter
    """Turns that principals ask for."""
    call_rate: RateLimiter
    """Methods that principals call."""
    traffic: TrafficLimiter
    """Frames and bytes that principals send."""
    upload_rate: RateLimiter
    """Attachments that principals upload."""
    search_rate: RateLimiter
    """Searches that principals make."""
    readers: ReaderLimit
    """Open sockets and event streams."""
    open_connections: OpenConnections
    """Open sockets and event streams by principal, to be closed when it expires or is revoked."""
    body_budget: MemoryBudget[asyncio.Timeout]
    """Bytes of request bodies that are not complete."""
    node: NodeLinks | None = None
    """The links to other nodes; None when the store belongs to this process alone."""
    base_path: str = ""
    """Where agents are found, below wherever the app is mounted."""
    group: NodeGroup | None = None
    """The nodes that answer health checks together; None when the store belongs to this process alone."""
    clients: ConnectedClients = field(default_factory=ConnectedClients)
    slices: SharedSlices = field(default_factory=SharedSlices)

    @classmethod
    def new(cls, directory: Directory, limits: Limits, node: NodeLinks | None = None, base_path: str = "") -> Service:
        """Return the service of an app that has just started."""
        nodes, group = directory.store.nodes, None
        if node is not None and nodes is not None:
            from .node_group import NodeGroup  # what only nodes need is not imported for a file

            group = NodeGroup(node, directory, nodes)
        return cls(
            directory,
            limits,
            turn_rate=RateLimiter(limits.requests_per_minute),
            call_rate=RateLimiter(limits.calls_per_minute),
            traffic=TrafficLimiter(limits.frames_per_minute, limits.bytes_per_minute),
            upload_rate=RateLimiter(limits.uploads_per_minute),
            search_rate=RateLimiter(limits.searches_per_minute),
            readers=ReaderLimit(limits.sockets_per_agent, limits.sockets_per_principal),
            open_connections=OpenConnections(directory.clock),
            body_budget=MemoryBudget(limits.unfinished),
            node=node,
            base_path=base_path,
            group=group,
        )

    @contextmanager
    def admit(self, agent: AgentId, permit: Permit, close: Close, *, outlives: bool = False) -> Iterator[None]:
        """Count the principal of a stream as present while the block runs; see `OpenConnections.admit`."""
        with (
            self.open_connections.admit(permit, close, outlives=outlives),
            self.directory.presence.join(agent, permit.principal.identity),
        ):
            yield
