"""Streams that an agent writes by hand, and results of its own SQL, as agents' own code knows them."""

from __future__ import annotations

from dataclasses import dataclass

from ...events import Outcome
from ...ids import Attempt, MessageId, Millis, RequestId, TurnId
from ...log.base import SqlResult

__all__ = ["ManagedRecord", "SqlResult", "StreamRecord"]


@dataclass(frozen=True, slots=True)
class ManagedRecord:
    """A managed stream as it stands. `outcome` is None while it streams, `total` is known once it does not."""

    turn: TurnId
    stream: RequestId
    message_id: MessageId
    attempt: Attempt
    created_at: Millis
    completed_at: Millis | None = None
    outcome: Outcome | None = None
    error: str | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A bare stream as the store has it. `outcome` is None while it streams."""

    turn: TurnId
    request: RequestId
    created_at: Millis
    completed_at: Millis | None
    outcome: Outcome | None
    error: str | None
