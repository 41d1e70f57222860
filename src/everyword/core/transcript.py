"""The messages and the ends of turns that a reader of the log computes, from any part of the log.

The result is the same for a reader that read from the start, started late, missed chunks that were pruned, or reads an
old log: `message.ended` replaces what the reader has of the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..errors import FoldError
from ..events import (
    AttemptStarted,
    CallAnswered,
    ChatCleared,
    Chunk,
    Event,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    TurnAccepted,
    TurnEnded,
    TurnRetargeted,
)
from ..ids import MessageId, NodeId, TurnId
from ..messages.fold import MessageFold
from ..messages.message import UIMessage
from ..messages.tool_calls import settle
from .turn_state import answer_of

__all__ = ["Ending", "Transcript"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, as every client sees it."""

    outcome: str
    error: str | None
    reason: str | None


@dataclass(slots=True)
class Transcript:
    """Messages by node, and ends by turn. Apply events in order."""

    messages: dict[NodeId, dict[str, Any]] = field(default_factory=dict)
    endings: dict[TurnId, Ending] = field(default_factory=dict)
    _places: dict[TurnId, tuple[NodeId, MessageId]] = field(default_factory=dict)
    _folds: dict[TurnId, MessageFold] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        match event:
            case TurnAccepted():
                self._accept(event)
            case TurnRetargeted():
                self._places[event.turn] = event.node, event.message_id
            case AttemptStarted(fresh=True) if event.turn in self._places:
                self._folds.pop(event.turn, None)
                self.messages.pop(self._places[event.turn][0], None)
            case Chunk():
                self._chunk(event)
            case CallAnswered():
                self._answer(event)
            case MessageEnded() | MessageReplaced():
                self.messages[event.node] = msgspec.json.decode(bytes(event.message))
            case TurnEnded():
                self._folds.pop(event.turn, None)
                self.endings[event.turn] = Ending(event.outcome.value, event.error, event.reason)
            case MessagesPut():
                for placed in event.messages:
                    self.messages[placed.node] = msgspec.json.decode(bytes(placed.message))
            case MessagesRemoved():
                for node in event.nodes:
                    self.messages.pop(node, None)
            case ChatCleared():
                self.messages.clear()
            case _:
                pass  # attempts, cancels and hooks change no message

    def _accept(self, event: TurnAccepted) -> None:
        for placed in event.messages:
            self.messages[placed.node] = msgspec.json.decode(bytes(placed.message))
        if event.dropped or event.kind.is_bare:
            return
        self._places[event.turn] = event.node, event.message_id

    def _chunk(self, event: Chunk) -> None:
        if event.turn not in self._places or event.transient:
            return
        node, message_id = self._places[event.turn]
        fold = self._folds.get(event.turn)
        if fold is None:
            base = self.messages.get(node)
            fold = MessageFold(message_id, base=UIMessage.from_dict(base) if base is not None else None)
            self._folds[event.turn] = fold
        try:
            fold.apply(msgspec.json.decode(bytes(event.body)))
        except FoldError:
            return  # the first chunks were pruned: `message.ended` has the whole message
        if not fold.is_empty:
            self.messages[node] = fold.message().to_dict()

    def _answer(self, event: CallAnswered) -> None:
        if event.turn is not None or event.node not in self.messages:
            return  # the answer is in the chunks and in `message.ended`
        settled = settle(UIMessage.from_dict(self.messages[event.node]), event.call, answer_of(event))
        if settled is not None:
            self.messages[event.node] = settled.to_dict()
