"""Recovery of turns whose attempt died, failed or stalled: what the agent's code may decide, and the retry delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..core.attempt_limits import cause_of
from ..core.state import State
from ..events import AttemptCause
from ..ids import MessageId, Millis, RequestId, TurnId
from ..messages.message import UIMessage

__all__ = ["Continue", "DecidesRecovery", "Decision", "Recovery", "Retry", "Stop", "Wait", "backoff", "recovery_of"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """A turn that is to be tried again. Times in seconds."""

    request_id: RequestId
    message_id: MessageId
    cause: AttemptCause
    """Why the attempt before did not end: `crash`, `shutdown` in good order, `stall`, or `retry` after a failure that
    may pass."""
    attempt: int
    """The attempt that would come next; the first one was 1."""
    age: float
    """Since the turn was accepted."""
    idle: float
    """Since its last output, or since it was accepted."""
    partial: UIMessage | None
    """What it has said so far."""
    continuation: bool = False
    tries: int = 1
    """Attempts that count against `max_attempts`: since the last progress, without those that a shutdown ended."""
    exhausted: bool = False
    """True when a limit is reached: the turn is given up, and the hook is called a last time."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Call the handler again; it goes on from what was said. The default."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Call the handler again and forget what was said. A continuation goes on instead: it has nothing else to show."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the turn: as `error` with this text, or without one as `aborted`. What was said is kept.

    With `forget` it is not, for every client alike. A continuation keeps it: the calls that it made or was given the
    results of belong to a message that stays.
    """

    error: str | None = None
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again later."""

    seconds: float


Decision = Continue | Retry | Stop | Wait


@runtime_checkable
class DecidesRecovery(Protocol):
    """A responder that has a say in recovery."""

    async def on_recovery(self, recovery: Recovery) -> Decision:
        """Decide what becomes of the turn."""
        ...

    async def on_exhausted(self, recovery: Recovery) -> None:
        """Called when a turn was given up."""
        ...


def recovery_of(state: State, turn: TurnId, cause: AttemptCause, now: Millis) -> Recovery | None:
    """Return what is to be recovered, or None when the turn was never tried."""
    found = state.open.get(turn)
    if found is None or found.attempt == 0:
        return None
    message = found.fold.message() if found.fold is not None and found.chunks > 0 else None
    return Recovery(
        request_id=found.request,
        message_id=found.accepted.message_id,
        cause=cause_of(found, cause),
        attempt=found.attempt + 1,
        age=(now - found.accepted_at) / 1000,
        idle=(now - found.progressed_at) / 1000,
        partial=message if message is not None and message.parts else None,
        continuation=found.extends,
        tries=found.attempt_counter.counted,
    )


def backoff(attempt: int) -> int:
    """Return how many milliseconds to wait before this attempt after a failure that may pass."""
    return int(min(30_000, 500 * 2 ** max(attempt - 2, 0)))
