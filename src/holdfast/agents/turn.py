"""What `on_chat_message` is given: one attempt at one turn."""

from __future__ import annotations

from typing import Any

from ..messages.chunks import as_chunk
from ..runtime.api import CancelToken, TurnCall

__all__ = ["Turn"]


class Turn:
    """One attempt at answering.

    `id` is the request id, `body` what the client sent along, `attempt` counts from 1. After a crash the same turn
    comes again with a higher `attempt`, and what was already said is the last of `agent.messages`: go on from there.
    """

    def __init__(self, call: TurnCall) -> None:
        self._call = call

    @property
    def id(self) -> str:
        return self._call.request

    @property
    def message_id(self) -> str:
        """The id of the assistant message that this turn writes."""
        return self._call.message_id

    @property
    def trigger(self) -> str:
        """`submit-message` or `regenerate-message`, as the client put it; nothing depends on it."""
        return self._call.trigger

    @property
    def attempt(self) -> int:
        return self._call.attempt

    @property
    def continuation(self) -> bool:
        """Whether the answer goes on from a message that is already there."""
        return self._call.is_continuation or self._call.partial is not None

    @property
    def body(self) -> dict[str, Any]:
        """The client's own fields beside the messages; empty when there are none."""
        return self._call.body if isinstance(self._call.body, dict) else {}

    @property
    def client_tools(self) -> list[dict[str, Any]]:
        """The tools that the page offers to run: name, description, parameters."""
        return self._call.client_tools if isinstance(self._call.client_tools, list) else []

    @property
    def cancelled(self) -> CancelToken:
        """Set when the turn is to stop. Look at it, await it, or call `raise_if_set()`."""
        return self._call.cancelled

    @property
    def abort_signal(self) -> CancelToken:
        """The same as `cancelled`, under the name that users of the original know."""
        return self._call.cancelled

    async def write(self, chunk: Any) -> None:
        """Add a chunk to the answer from beside the returned stream: a data part, a source, metadata."""
        await self._call.write(as_chunk(chunk))

    def __repr__(self) -> str:
        return f"Turn(id={self.id!r}, attempt={self.attempt})"
