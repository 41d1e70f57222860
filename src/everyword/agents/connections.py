"""Connection: one open socket of a client, for the agent's own code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from ..errors import UsageError
from ..messages.json_values import encode_json
from ..principals import LOCAL, Principal
from ..runtime.agent_runtime import StateAccess

__all__ = ["Connection"]


class Connection:
    """One open socket to one agent. Several may have the same `id`; a client's tabs have their own.

    The agent may store data in `state`; it lasts as long as the connection. `principal` opened it.
    """

    def __init__(
        self,
        serial: str,
        client_id: str,
        *,
        send: Callable[[Any], None],
        close: Callable[[int, str], None],
        drain: Callable[[], Awaitable[None]] | None = None,
        request: Any = None,
        principal: Principal = LOCAL,
        since: float = 0.0,
    ) -> None:
        self.serial, self.id, self.request, self.principal = serial, client_id, request, principal
        self.state: dict[str, Any] = {}
        self.since = since
        """When it was opened, in seconds since 1970."""
        self.has_protocol = True
        """Whether it gets frames of the state and the chat; `Agent.prepare_connection` may set it to False."""
        self._tags: frozenset[str] = frozenset()
        self._states: StateAccess | None = None
        """The state of the agent that it is connected to."""
        self._send, self._close, self._drain = send, close, drain

    @property
    def tags(self) -> frozenset[str]:
        """Names under which `Agent.connections(tag)` finds it; `Agent.prepare_connection` sets them."""
        return self._tags

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        if isinstance(tags, str):
            raise UsageError(f"unable to tag a connection with {tags!r}; give a list of names")
        self._tags = frozenset(tags)

    @property
    def is_readonly(self) -> bool:
        """Whether its principal may watch and change nothing."""
        return self.principal.read_only

    def send(self, message: Any) -> None:
        """Send text unchanged, or any other value as JSON, after the frames of what happened before.

        A closed socket ignores it.

        If a state was set that is not committed yet, the message is sent after the commit, because it may depend on
        that state; if the commit fails, the message is dropped. A client that does not read is closed with 1013 when
        too much waits for it (`Limits.unread`).
        """
        if self._states is None or not self._states.is_waiting:
            self._send(message)
            return
        text = message if isinstance(message, str) else encode_json(message).decode()  # now: it may be changed later
        self._states.then(partial(self._send, text))

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent: call it between the messages of a long series.

        A client that reads nothing for a while (`Limits.unread_seconds`) is closed with 1013.
        """
        if self._drain is not None:
            await self._drain()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the socket; the client reconnects, unless the code forbids it (1008, 4xxx)."""
        self._close(code, reason)

    def __repr__(self) -> str:
        return f"Connection({self.id!r})"


def excluding(connections: Iterable[Connection], exclude: Iterable[Connection | str]) -> list[Connection]:
    """Return the connections that are not in `exclude`, which has connections or ids."""
    left_out = list(exclude)
    return [each for each in connections if each not in left_out and each.id not in left_out]
