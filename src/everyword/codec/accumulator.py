"""The accumulator: decoded outputs of many messages, interleaved, folded into the messages they build."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import FoldError
from ..messages.fold import MessageFold
from ..messages.message import Chunk, UIMessage
from .aisdk import ENDINGS
from .decoder import Decoded
from .encode import fold_of

__all__ = ["MessageAccumulator"]


class MessageAccumulator:
    """Messages by the id that their outputs carry, in order of first sight.

    Any chunk begins its message; `finish`, `abort` and `error` complete it. A completed message takes nothing
    more, except that a `start` goes on with it, as a continuation does. Chunks that do not fit their message,
    and outputs that name none, are left out.
    """

    def __init__(self) -> None:
        self._active: dict[str, MessageFold] = {}
        self._messages: dict[str, UIMessage | None] = {}

    @property
    def messages(self) -> list[UIMessage]:
        """Every message as it is now."""
        return [self._active[key].message() if held is None else held for key, held in self._messages.items()]

    @property
    def completed(self) -> list[UIMessage]:
        """The messages to which nothing is added any more."""
        return [held for held in self._messages.values() if held is not None]

    @property
    def is_active(self) -> bool:
        """Whether some message is still being built."""
        return bool(self._active)

    def take(self, outputs: Iterable[Decoded[Chunk] | UIMessage]) -> None:
        """Fold the outputs in order; a whole message takes the place of what was known of it."""
        for output in outputs:
            if isinstance(output, UIMessage):
                self._active.pop(output.id, None)
                self._messages[output.id] = output
            elif output.message_id is not None:
                self._fold(output.message_id, output.event)

    def update(self, message: UIMessage) -> bool:
        """Replace a message that is known by its id, active or not; False when there is none."""
        for key, held in self._messages.items():
            fold = self._active.get(key)
            known = held if fold is None else fold.message()
            if known is not None and known.id == message.id:
                if fold is not None:
                    self._active[key] = fold_of(message, _still_open(message, fold))
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
    """Return the open parts of the fold that the message, which takes its place, has streaming too."""
    parts = message.parts
    return {
        at: name for at, name in fold.open_parts.items() if at < len(parts) and parts[at].get("state") == "streaming"
    }
