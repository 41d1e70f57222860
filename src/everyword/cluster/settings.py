"""Settings of links."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LinkSettings"]


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Times and limits of the links of one node."""

    silent_seconds: float = 4.0
    """A peer that sends nothing for so long, and does not answer a ping, is lost."""
    connect_seconds: float = 3.0
    """How long connecting and the handshake may take, together."""
    handshake_bytes: int = 8 * 1024
    """Bytes that a peer may send before it has proved that it knows the secret."""
    unproven: int = 64
    """Connections that have not proved it. More are closed at once."""
    links: int = 1024
    """Links that are established, in each direction."""
    streams: int = 20_000
    """Open streams of one link."""
    message_bytes: int = 64 * 1024 * 1024
    """Bytes of one message that has to be whole: a frame of a client, a payload of a call, a part of its result."""
