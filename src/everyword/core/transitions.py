"""The statuses of a turn, and which event leads from one to another, in one table.

The diagram in the docs is generated from the table. Every change of a turn's status is a row of it. An event without a
row is a bug in `decide`, never a client's mistake: `evolve` raises AssertionError.
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
    """The status of a turn. How an ended turn ended is its `Outcome`."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    CANCELLING = "cancelling"
    ENDED = "ended"

    __hash__ = object.__hash__  # the hash of Enum is Python code, and it is computed for every chunk


TRANSITIONS: Mapping[TurnStatus | None, Mapping[type[Event], TurnStatus]] = {
    None: {TurnAccepted: TurnStatus.ACCEPTED},
    TurnStatus.ACCEPTED: {
        TurnRetargeted: TurnStatus.ACCEPTED,
        MessagesPut: TurnStatus.ACCEPTED,  # the messages of a deferred turn, once they are known
        AttemptStarted: TurnStatus.RUNNING,
        TurnEnded: TurnStatus.ENDED,  # cancelled, superseded, dropped or cleared before it began
    },
    TurnStatus.RUNNING: {
        AttemptStarted: TurnStatus.RUNNING,  # the attempt before crashed or was given up; the turn goes on
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
