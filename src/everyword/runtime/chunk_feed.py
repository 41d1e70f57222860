"""From what a handler yields to chunks in the actor's mailbox: normalised, in order, and waiting while it is full."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.commands import Emitted
from ..ids import Attempt, TurnId
from ..messages.chunks import encode_chunk
from ..messages.message import Chunk
from ..messages.normaliser import Normaliser
from .actor import Actor

__all__ = ["ChunkFeed"]


class ChunkFeed:
    """The chunks of one attempt, whichever code writes them: the handler's stream, or its tools beside it."""

    def __init__(self, actor: Actor, turn: TurnId, attempt: Attempt, normaliser: Normaliser) -> None:
        self._actor, self._turn, self._attempt = actor, turn, attempt
        self.normaliser = normaliser
        self._unsent: list[Emitted] = []
        """Chunks for which there was no room yet, in the order in which they were normalised."""

    def offer_text(self, text: str) -> bool:
        """Add text in the few steps that nearly all text needs; False if it was not added and has to go to `add`."""
        body = self.normaliser.encode_text(text) if not self._unsent else None
        return body is not None and self._actor.offer(self._turn, self._attempt, [Emitted(body)])

    async def add(self, item: str | Chunk | None) -> None:
        """Normalise text, a chunk or (None) the end, and wait until the mailbox has taken it."""
        if isinstance(item, str):
            if (body := self.normaliser.encode_text(item)) is not None:
                self._unsent.append(Emitted(body))
            else:
                self._unsent += _emitted(self.normaliser.text(item))
        else:
            self._unsent += _emitted(self.normaliser.finish() if item is None else self.normaliser.feed(item))
        await self.flush()

    async def flush(self) -> None:
        """Wait until the mailbox has taken what was added."""
        while self._unsent:
            unsent = self._unsent
            if self._actor.offer(self._turn, self._attempt, unsent):
                self._unsent = []  # the list belongs to the mailbox now
            else:
                await self._actor.room()


def _emitted(chunks: Iterable[Chunk]) -> list[Emitted]:
    return [Emitted(encode_chunk(chunk), bool(chunk.get("transient"))) for chunk in chunks]
