"""Turns as the runtime hands them to an agent's code: one attempt, its result, and its record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import UsageError
from ...events import Identity, Outcome
from ...ids import AgentId, MessageId, Millis, RequestId, TurnId
from ...messages.message import Chunk, UIMessage

__all__ = [
    "ApprovalDetails",
    "CancelToken",
    "Evaluate",
    "StartToolCall",
    "TurnCall",
    "TurnRecord",
    "TurnResult",
    "Write",
]

Evaluate = Callable[[Sequence[UIMessage]], Awaitable[Sequence[dict[str, Any]]]]
"""Gives a deferred turn its messages, once it has reached the head of the queue (R-10)."""


Write = Callable[[Chunk], Awaitable[None]]

StartToolCall = Callable[[str, str, bool], Awaitable[bool]]
"""Records that a call (its id, its tool, whether it may be made twice) starts; False when it must not be made."""


async def _nowhere(chunk: Chunk) -> None:
    raise UsageError("unable to write a chunk; this turn is not being run")


async def _never(call: str, tool: str, is_idempotent: bool) -> bool:
    raise UsageError("unable to start a call; this turn is not being run")


@dataclass(frozen=True, slots=True)
class ApprovalDetails:
    """The details of a request for an approval, as the person who decides reads them."""

    call: str
    tool: str
    summary: str | None = None
    risk: str | None = None
    approvers: Sequence[str] = ()
    expires_after: int | None = None
    """Milliseconds after which the call counts as denied."""


def _not_announced(details: ApprovalDetails) -> None:
    raise UsageError("unable to ask for an approval; this turn is not being run")


async def _nothing() -> UIMessage | None:
    return None


async def _no_one(call: str) -> Identity | None:
    return None


async def _not() -> bool:
    return False


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


class TurnCall(msgspec.Struct, frozen=True):
    """One attempt of one turn, as its responder gets it.

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
    cancelled: CancelToken = msgspec.field(default_factory=CancelToken)
    write: Write = _nowhere
    """Adds a chunk to the answer from beside the stream, in order with it."""
    message: Callable[[], Awaitable[UIMessage | None]] = _nothing
    """Reads the answer as it stands, with everything written before; None while it is empty."""
    start_call: StartToolCall = _never
    """Commits that a tool of ours is about to run; to be awaited before its effect."""
    announce_approval: Callable[[ApprovalDetails], None] = _not_announced
    """Announces the details of a request for an approval; committed with the next chunk."""
    working: Callable[[], AbstractContextManager[None]] = nullcontext
    """Marks a time in which the model's silence is no stall, because something else is being waited for."""
    is_steered: Callable[[], Awaitable[bool]] = _not
    """Returns True if a question waits that is to be read before the next step; the answer has to end then."""
    may_retry: Callable[[], Awaitable[bool]] = _not
    """Returns True if another attempt may follow when this one fails."""
    is_held: Callable[[], Awaitable[bool]] = _not
    """Returns True if the answer has to end with its last step: a client answered a call, and continues by itself."""
    is_calls_only: bool = False
    """Whether the approved calls of `partial` are to be run, and the model is not to be asked (R-3)."""
    principal: Identity | None = None
    """The principal that asked, the same in every attempt (R-35)."""
    approver: Callable[[str], Awaitable[Identity | None]] = _no_one
    """Returns the principal that approved a call; None if the call was not approved, or the approver is unknown."""
    trace: str | None = None
    """The trace that asked, as `traceparent`, the same in every attempt."""


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
    usage: Any = None


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn as it stands: `status` is accepted, running, cancelling, or how it ended."""

    turn: TurnId
    request: RequestId
    status: str
    error: str | None
    accepted_at: Millis
    ended_at: Millis | None
