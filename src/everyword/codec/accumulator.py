"""The accumulator: build messages from the decoded, interleaved events of many streams."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import FoldError
from ..messages.fold import MessageFold
from ..messages.message import Chunk, UIMessage
from .aisdk import ENDINGS
from .decoder import Decoded
from .encode import fold_from_message

__all__ = ["MessageAccumulator"]


class MessageAccumulator:
    """Messages by the message id of the decoded events, in the order in which they first appeared.

    Any chunk begins its message; `finish`, `abort` and `error` complete it. A completed message ignores further
    chunks, except that a `start` continues it. Chunks that do not fit their message, and events without a message id,
    are ignored.
    """

    def __init__(self) -> None:
        self._active: dict[str, MessageFold] = {}
        self._messages: dict[str, UIMessage | None] = {}

    @property
    def messages(self) -> list[UIMessage]:
        """Every message in its current state."""
        return [self._active[key].message() if held is None else held for key, held in self._messages.items()]

    @property
    def completed(self) -> list[UIMessage]:
        """The messages that are complete."""
        return [held for held in self._messages.values() if held is not None]

    @property
    def is_active(self) -> bool:
        """True while a message is being built."""
        return bool(self._active)

    def take(self, outputs: Iterable[Decoded[Chunk] | UIMessage]) -> None:
        """Apply decoded events in order. A whole message replaces the known message with its id."""
        for output in outputs:
            if isinstance(output, UIMessage):
                self._active.pop(output.id, None)
                self._messages[output.id] = output
            elif output.message_id is not None:
                self._fold(output.message_id, output.event)

    def update(self, message: UIMessage) -> bool:
        """Replace the message with the same id, complete or not. Return False if there is none."""
        for key, held in self._messages.items():
            fold = self._active.get(key)
            known = held if fold is None else fold.message()
            if known is not None and known.id == message.id:
                if fold is not None:
                    self._active[key] = fold_from_message(message, _still_open(message, fold))
                else:
                    self._messages[key] = message
                return True
        return False

    def _fold(self, key: str, chunk: Chunk) -> None:
        kind, held = chunk["type"], self._messages.get(key)
        fold = self._active.get(key)
        if fold is None:
            is_over = held is not None and kind != "start"
            if is_over or kind in ENDINGS or chunk.get("transient"):
                return
            fold = MessageFold(key, base=held)
        try:
            fold.apply(chunk)
        except FoldError:
            return
        self._active[key], self._messages[key] = fold, None
        if kind in ENDINGS:
            self._messages[key] = self._active.pop(key).closed_message()


def _still_open(message: UIMessage, fold: MessageFold) -> dict[int, str]:
    """Return the open parts of the fold that are also streaming in the message that replaces it."""
    parts = message.parts
    return {
        at: name for at, name in fold.open_parts.items() if at < len(parts) and parts[at].get("state") == "streaming"
    }
