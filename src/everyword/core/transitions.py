"""What may happen to a turn, in one table. The docs' diagram is generated from it.

Rules: (1) every change of a turn's status is a row here; (2) an event that has no row is a bug of `decide`,
never of a client, and `evolve` refuses it loudly.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from ..events import (
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
    CancelRequested,
    Chunk,
    Event,
    HookDone,
    MessageEnded,
    MessagesPut,
    TurnAccepted,
    TurnEnded,
    TurnRetargeted,
)

__all__ = ["TRANSITIONS", "TurnStatus", "next_status"]


class TurnStatus(enum.Enum):
    """Where a turn is in its life; how it ended is its `Outcome`."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    CANCELLING = "cancelling"
    ENDED = "ended"

    __hash__ = object.__hash__  # Enum's own is Python code, and every chunk looks a row up


TRANSITIONS: Mapping[TurnStatus | None, Mapping[type[Event], TurnStatus]] = {
    None: {TurnAccepted: TurnStatus.ACCEPTED},
    TurnStatus.ACCEPTED: {
        TurnRetargeted: TurnStatus.ACCEPTED,
        MessagesPut: TurnStatus.ACCEPTED,  # a deferred turn's messages, evaluated at the head
        AttemptStarted: TurnStatus.RUNNING,
        TurnEnded: TurnStatus.ENDED,  # cancelled, superseded, dropped or cleared while it waited
    },
    TurnStatus.RUNNING: {
        AttemptStarted: TurnStatus.RUNNING,  # the attempt before died or gave up; the turn goes on
        AttemptDelayed: TurnStatus.RUNNING,
        AttemptInterrupted: TurnStatus.RUNNING,
        Chunk: TurnStatus.RUNNING,
        CallStarted: TurnStatus.RUNNING,
        CallAnswered: TurnStatus.RUNNING,
        MessageEnded: TurnStatus.RUNNING,
        CancelRequested: TurnStatus.CANCELLING,
        TurnEnded: TurnStatus.ENDED,
    },
    TurnStatus.CANCELLING: {
        Chunk: TurnStatus.CANCELLING,
        CallAnswered: TurnStatus.CANCELLING,
        MessageEnded: TurnStatus.CANCELLING,
        TurnEnded: TurnStatus.ENDED,
    },
    TurnStatus.ENDED: {HookDone: TurnStatus.ENDED},
}


def next_status(status: TurnStatus | None, event: Event) -> TurnStatus:
    """Return the status after `event`; raise AssertionError where the table has no row."""
    after = TRANSITIONS[status].get(type(event))
    if after is None:
        raise AssertionError(f"illegal {type(event).__name__} when {status.value if status else 'unknown'}")
    return after
