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

__all__ = ["TRANSITIONS", "Status", "next_status"]


class Status(enum.Enum):
    """Where a turn is in its life; how it ended is its `Outcome`."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    CANCELLING = "cancelling"
    ENDED = "ended"

    __hash__ = object.__hash__  # Enum's own is Python code, and every chunk looks a row up


TRANSITIONS: Mapping[Status | None, Mapping[type[Event], Status]] = {
    None: {TurnAccepted: Status.ACCEPTED},
    Status.ACCEPTED: {
        TurnRetargeted: Status.ACCEPTED,
        MessagesPut: Status.ACCEPTED,  # a deferred turn's messages, evaluated at the head
        AttemptStarted: Status.RUNNING,
        TurnEnded: Status.ENDED,  # cancelled, superseded, dropped or cleared while it waited
    },
    Status.RUNNING: {
        AttemptStarted: Status.RUNNING,  # the attempt before died or gave up; the turn goes on
        AttemptDelayed: Status.RUNNING,
        AttemptInterrupted: Status.RUNNING,
        Chunk: Status.RUNNING,
        CallStarted: Status.RUNNING,
        CallAnswered: Status.RUNNING,
        MessageEnded: Status.RUNNING,
        CancelRequested: Status.CANCELLING,
        TurnEnded: Status.ENDED,
    },
    Status.CANCELLING: {
        Chunk: Status.CANCELLING,
        CallAnswered: Status.CANCELLING,
        MessageEnded: Status.CANCELLING,
        TurnEnded: Status.ENDED,
    },
    Status.ENDED: {HookDone: Status.ENDED},
}


def next_status(status: Status | None, event: Event) -> Status:
    """Return the status after `event`; raise AssertionError where the table has no row."""
    after = TRANSITIONS[status].get(type(event))
    if after is None:
        raise AssertionError(f"illegal {type(event).__name__} when {status.value if status else 'unknown'}")
    return after
