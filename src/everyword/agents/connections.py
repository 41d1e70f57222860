"""A client that is connected to an agent, as the agent's own code sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Connection"]


class Connection:
    """One socket to one agent, while it is open. Several may have one `id`: a client's tabs have their own.

    `state` is the agent's to use: it lasts as long as the connection does. `tags` are what
    `Agent.connection_tags` gave it. `is_readonly` is that of its principal.
    """

    def __init__(
        self,
        serial: str,
        client_id: str,
        *,
        send: Callable[[Any], None],
        close: Callable[[int, str], None],
        request: Any = None,
        is_readonly: bool = False,
    ) -> None:
        self.serial, self.id, self.request, self.is_readonly = serial, client_id, request, is_readonly
        self.state: dict[str, Any] = {}
        self.tags: frozenset[str] = frozenset()
        self.has_protocol = True
        """Whether it is told of the state and the chat, as `Agent.should_send_protocol_messages` said."""
        self._send, self._close = send, close

    def send(self, message: Any) -> None:
        """Send text as it is, or anything else as JSON, after what has happened before; a closed socket ignores it."""
        self._send(message)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the socket; the client comes back unless the code says that it must not (1008, 4xxx)."""
        self._close(code, reason)

    def __repr__(self) -> str:
        return f"Connection({self.id!r})"


def excluding(connections: Iterable[Connection], exclude: Iterable[Connection | str]) -> list[Connection]:
    """Return those that are in `exclude` neither themselves nor by their id."""
    left_out = list(exclude)
    return [each for each in connections if each not in left_out and each.id not in left_out]
