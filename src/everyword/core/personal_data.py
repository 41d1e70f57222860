"""What an event has of a principal: for an access request, the same that an erasure would replace."""

from __future__ import annotations

from typing import Any

import msgspec

from ..events import (
    Event,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
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
    if isinstance(event, MessageEnded | TurnEnded | TurnRetargeted) or eraser.rewrite(event) is event:
        # What the principal gave to an answer is in other events.
        return None
    found: dict[str, Any] = msgspec.json.decode(encode_event(event))
    if isinstance(event, TurnAccepted | MessagesPut):
        target = eraser.target
        is_ours = isinstance(event, TurnAccepted) and event.turn in eraser.turns
        own = [
            each.message
            for each in event.messages
            if (is_ours and each.role == "user") or are_words_of(target, bytes(each.message))
        ]
        found["messages"] = [msgspec.json.decode(each) for each in own]
        if isinstance(event, TurnAccepted) and not is_ours:  # another principal's turn: only what is ours in it
            return {"t": found["t"], "messages": found["messages"]} if own else None
    elif isinstance(event, MessageReplaced) and not are_words_of(eraser.target, bytes(event.message)):
        return None
    return found
