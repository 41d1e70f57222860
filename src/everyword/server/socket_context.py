"""What the parts of one socket share: the agent, the client, and the client's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from ..ids import AgentId
from ..runtime.directory import Directory, LoadedAgent
from .client_files import storing_files
from .open_connections import OpenConnections
from .permissions import Permit
from .shared_slices import SharedSlices

__all__ = ["SocketContext", "SocketSettings"]


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """What one socket may do."""

    max_frame: int = 32 * 1024 * 1024
    max_unread: int = 4 * 1024 * 1024
    """Bytes that may wait to be sent, besides events, which are in the log."""
    unread_seconds: float = 20.0
    """How long a caller waits for the client to read half of that."""
    permit: Permit = field(default_factory=Permit)
    """The client's principal, and what it may do."""
    open_connections: OpenConnections | None = None
    """Closes the socket when its principal expires or is revoked."""
    may_ask: Callable[[], int] = lambda: 0
    """Counts a requested turn; returns how many milliseconds too early it is."""
    may_call: Callable[[], int] = lambda: 0
    """Counts a method call; returns how many milliseconds too early it is."""
    prefix: str | None = None
    """What stands before an agent's path in the URLs of attachments that this client sends."""
    slices: SharedSlices = field(default_factory=SharedSlices)
    """The slices that sockets share when they are sent the same bytes."""


@dataclass(frozen=True, slots=True)
class SocketContext:
    """One socket of one client to one loaded agent."""

    directory: Directory
    loaded: LoadedAgent
    settings: SocketSettings
    serial: str
    """The server's name for the socket: the `origin` of what it sends. Unique over all processes."""
    owner: str
    """The client's name for itself (`_pk`); its tabs may share one."""

    @property
    def agent(self) -> AgentId:
        return self.loaded.actor.agent

    def storing(self, messages: Sequence[dict[str, Any]]) -> AbstractAsyncContextManager[Sequence[dict[str, Any]]]:
        """Move large `data:` URLs out of the client's messages."""
        sender = self.settings.permit.principal.identity
        prefix = self.settings.prefix
        return storing_files(self.directory.attachments, self.loaded, messages, prefix=prefix, sender=sender)

    @property
    def data_url_limit(self) -> int | None:
        """How long a stored `data:` URL may be; None for any length."""
        attachments = self.directory.attachments
        return attachments.rules.inline_limit if attachments is not None else None

    def check_lease(self) -> None:
        """Raise `AgentStopped` if this node may not answer for the agent any more."""
        self.directory.check_lease(self.agent)
