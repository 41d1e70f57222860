"""Joining a turn's stream with something in hand: whatever is told again, the reader hears only the rest."""

from __future__ import annotations

from typing import Final

from ...codec.aisdk import ENDINGS
from ...codec.compact import replay_from_fold
from ...codec.encode import encode_parts
from ...errors import FoldError
from ...messages.fold import MessageFold
from ...messages.message import Chunk, UIMessage
from .catch_up import catch_up, open_names
from .late_join import LateJoin

__all__ = ["StreamJoiner"]

_DELTAS: Final = frozenset({"text-delta", "reasoning-delta", "tool-input-delta"})

# Chunks that add nothing to a message by which it could be seen that they came.
_LEAVES_NO_TRACE: Final = frozenset({"finish-step", "reset-step"})

NOTHING: Final = -1
"""The cursor of a reader who has seen no chunk."""


class StreamJoiner:
    """A reader of one turn's stream that has seen it up to chunk `cursor`, with `seen` to show for it.

    Feed it whatever comes: chunks one by one, compacted ones, and replays, which begin with another `start` and
    end at the next chunk behind the cursor or at `replayed`. What comes out, applied to what the reader has, folds
    to the message of somebody who saw everything. When chunks cannot lead there (a text was replaced), the message
    is told anew: a `start` from `replayed`, or in answer to a replay, means: begin afresh.
    A replay and what follows it must leave out nothing (R-11). `seen` is taken over and folded on; `base` is the
    message that a continuation continues.
    """

    def __init__(
        self,
        message_id: str,
        *,
        scope: str = "",
        seen: MessageFold | None = None,
        cursor: int = NOTHING,
        base: UIMessage | None = None,
    ) -> None:
        self._message_id = message_id
        self._scope = scope
        self._base = base
        self._cursor = cursor
        self._fed: int | None = None
        self._has_begun = seen is not None or base is not None
        self._held = seen if seen is not None else MessageFold(message_id, base=base)
        self._join = LateJoin(message_id, scope=scope)
        if self._has_begun:
            for chunk in encode_parts(self._held.message(), open_parts=self._held.open_parts, is_replay=False):
                self._join.feed(chunk)
        self._told: MessageFold | None = None
        self._names: dict[tuple[str, str], str] = {}
        self._transients: list[Chunk] = []
        self._transients_said = 0
        self._is_over = False

    @property
    def cursor(self) -> int:
        """The index of the newest chunk that the reader has; -1 before the first."""
        return self._cursor

    @property
    def held(self) -> MessageFold:
        """What the reader has."""
        return self._held

    def feed(self, index: int | None, chunk: Chunk) -> list[Chunk]:
        """Return what the reader is to see of the next chunk; `index` is None for one that was made up (R-13).

        Behind the stream's ending there is nothing more to see. Raises FoldError for a compacted chunk that
        reaches back behind the cursor outside of a replay: only from the start on can be told what of it is known.
        """
        if self._is_over:
            return []
        is_old = index is not None and index <= self._cursor
        if chunk["type"] == "start" and self._told is None and self._is_replay(index):
            # A replay in few chunks tells a continued message from its first step; chunk by chunk, from this turn's.
            base = None if index is None else self._base
            self._told, self._transients = MessageFold(self._message_id, base=base), []
        if self._told is not None:
            return self._feed_replay(self._told, index, chunk, is_old=is_old)
        if is_old:
            self._fed = index
            return []
        if index is not None and chunk["type"] in _DELTAS and self._fed is not None and self._fed < self._cursor:
            raise FoldError(
                f"unable to join at chunk {index}; it may repeat what came up to {self._cursor}: replay from the start",
                chunk_type=chunk["type"],
            )
        self._advance(index)
        return self._say(chunk)

    def replayed(self, index: int | None = None) -> list[Chunk]:
        """Return what the replay that ends here adds; `index` is that of the last chunk it covers, if known.

        Without a replay under way there is nothing to add.
        """
        told, self._told = self._told, None
        if told is None or (index is not None and index < self._cursor):
            return []
        self._advance(index)
        chunks = catch_up(self._held, told)
        if chunks is None:
            chunks = replay_from_fold(told)
            self._held = MessageFold(self._message_id)
            self._join = LateJoin(self._message_id, scope=self._scope)
        self._names = {}
        said = [out for chunk in chunks for out in self._say(chunk)]
        self._names = open_names(self._held, told)
        news, self._transients = self._transients[self._transients_said :], []
        return [*said, *(out for chunk in news for out in self._say(chunk))]

    def dropped(self) -> None:
        """Forget a replay that was cut off: the next one tells everything again."""
        self._told, self._transients = None, []

    def _is_replay(self, index: int | None) -> bool:
        """Tell a `start` that repeats what was told from the one that opens the stream."""
        return self._has_begun and (index is None or index > 0 or self._cursor >= 0)

    def _feed_replay(self, told: MessageFold, index: int | None, chunk: Chunk, *, is_old: bool) -> list[Chunk]:
        is_next, is_transient = index is not None and not is_old, bool(chunk.get("transient"))
        if is_transient and index is None:
            self._transients.append(chunk)
            return []
        is_ending = chunk["type"] in ENDINGS
        if is_ending and is_old:
            self._told, self._is_over = None, True
            return []
        if is_ending:
            told.apply(chunk)  # a finish may bring metadata
        if is_ending or (is_next and chunk["type"] in _LEAVES_NO_TRACE):
            said = self.replayed()
            self._advance(index)
            return [*said, *self._say(chunk)]
        told.apply(chunk)
        if not is_next:
            return []
        said = self.replayed(index)
        return [*said, *self._say(chunk)] if is_transient else said

    def _say(self, chunk: Chunk) -> list[Chunk]:
        kind: str = chunk["type"]
        said = self._join.feed(self._renamed(kind, chunk) if self._names else chunk)
        for out in said:
            self._held.apply(out)
        self._has_begun = self._has_begun or bool(said)
        self._transients_said += bool(chunk.get("transient"))
        self._is_over = kind in ENDINGS
        return said

    def _renamed(self, kind: str, chunk: Chunk) -> Chunk:
        """Return the chunk under the id that the reader has its part open under."""
        family, _, moment = kind.partition("-")
        key = (family, chunk.get("id", ""))
        if moment not in ("delta", "end") or key not in self._names:
            if moment == "start":
                self._names.pop(key, None)
            return chunk
        return {**chunk, "id": self._names[key]}

    def _advance(self, index: int | None) -> None:
        if index is not None and index > self._cursor:
            self._cursor = self._fed = index
