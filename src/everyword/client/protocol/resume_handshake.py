"""Probes: how a client asks whether there is a turn to resume."""

from __future__ import annotations

__all__ = ["ClientResumeHandshake"]


class ClientResumeHandshake:
    """The probes of one client, and the server's answers to them."""

    def __init__(self) -> None:
        self.answers: dict[str, str | None] = {}
        """Probe → the request to resume or to wait for, or None."""
        self.newest: str | None = None
        """The newest probe: the only one that is sure to be answered. Others may be lost with their connection."""
        self.pending: str | None = None
        """The request that the server has told this client to wait for."""
        self._count = 0

    def probe(self) -> str:
        """Return the id of a new probe."""
        self._count += 1
        self.newest = f"probe-{self._count}"
        return self.newest

    def disconnected(self) -> None:
        self.pending = None
