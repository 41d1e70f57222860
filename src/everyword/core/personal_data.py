"""The parts of an event that belong to a principal, for access requests: what an erasure would replace."""

from __future__ import annotations

from typing import Any

import msgspec

from ..events import (
    ApprovalRequested,
    ConversationChanged,
    Event,
    FiberEnded,
    JobAdded,
    JobEnded,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnRetargeted,
    encode_event,
)
from .erasure import Eraser, are_words_of

__all__ = ["personal_part"]


def personal_part(eraser: Eraser, event: Event) -> dict[str, Any] | None:
    """Return the event as JSON, with the principal's own messages only; None if it has nothing of the principal.

    Call it for each event of a log, in order, with one `eraser`.
    """
    if isinstance(event, MessageEnded | TurnEnded | TurnRetargeted | StateSet) or eraser.rewrite(event) is event:
        # What the principal gave to an answer is in other events, and so are messages that were copied into a state.
        return None
    found: dict[str, Any] = msgspec.json.decode(encode_event(event))
    principal = eraser.target.principal
    match event:
        case TurnAccepted() | MessagesPut():
            is_ours = isinstance(event, TurnAccepted) and event.turn in eraser.turns
            messages = [(msgspec.json.decode(each.message), each.role) for each in event.messages]
            own = [each for each, role in messages if are_words_of(eraser.target, each, role, is_ours=is_ours)]
            found["messages"] = own
            if not is_ours:  # another principal's turn: only what is ours in it
                return {"t": found["t"], "messages": found["messages"]} if own else None
        case MessageReplaced():
            return found if are_words_of(eraser.target, msgspec.json.decode(event.message)) else None
        case ConversationChanged() if event.by is None or event.by.id != principal:
            return {"t": found["t"], "owner": event.owner}  # another one made it the owner
        case ApprovalRequested():
            return {"t": found["t"], "call": event.call, "tool": event.tool, "approvers": [principal]}
        case JobAdded() if event.job not in eraser.jobs:
            return None  # a notification that names it
        case JobEnded() | FiberEnded():
            found.pop("detail", None)
        case _:
            pass
    return found
