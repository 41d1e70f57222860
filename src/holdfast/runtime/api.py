"""What the runtime asks of those who answer turns, and what it tells them. `agents` builds on this alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..core.state import Rules
from ..events import Outcome
from ..ids import AgentId, MessageId, RequestId, TurnId
from ..messages.message import Chunk, UIMessage

__all__ = ["CancelToken", "Evaluate", "Responder", "TurnCall", "TurnResult"]

Evaluate = Callable[[Sequence[UIMessage]], Awaitable[Sequence[dict[str, Any]]]]
"""Gives a deferred turn its messages, once it has reached the head of the queue (R-10)."""


class CancelToken:
    """Says that a turn is to stop: look at it, await it, or let it raise."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def raise_if_set(self) -> None:
        """Raise `asyncio.CancelledError` when the turn is to stop."""
        if self._event.is_set():
            raise asyncio.CancelledError("the turn was cancelled")

    async def wait(self) -> None:
        await self._event.wait()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()

    def __bool__(self) -> bool:
        return self._event.is_set()


@dataclass(frozen=True, slots=True)
class TurnCall:
    """One attempt of one turn, as its responder is told of it.

    `messages` is the conversation that the turn answers. When something of the answer is there already (a later
    attempt, a continuation), it is `partial`, and the last of `messages`.
    """

    agent: AgentId
    turn: TurnId
    request: RequestId
    message_id: MessageId
    attempt: int
    trigger: str
    is_continuation: bool
    messages: Sequence[UIMessage]
    partial: UIMessage | None = None
    body: Any = None
    client_tools: Any = None
    cancelled: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended, as committed. `recovered` means that an earlier process may have said so already (R-28)."""

    agent: AgentId
    turn: TurnId
    request: RequestId
    outcome: Outcome
    error: str | None
    message: UIMessage | None
    is_continuation: bool
    reason: str | None = None
    recovered: bool = False


class Responder(Protocol):
    """Answers the turns of one agent. Its code never runs inside the actor (R-26)."""

    @property
    def rules(self) -> Rules:
        """What this agent lays down for the core; read once, at activation."""
        ...

    def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk]:
        """Answer a turn: yield text or chunks. Ending is success; raising, or an `error` chunk, is failure."""
        ...

    def error_text(self, exc: BaseException) -> str:
        """Return what clients may read of a failure (R-29)."""
        ...

    async def on_response(self, result: TurnResult) -> None:
        """Hear how a turn ended; called only if `rules.has_response_hook`."""
        ...
