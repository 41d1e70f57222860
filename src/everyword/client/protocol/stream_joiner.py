"""Follow one turn's stream through replays, without repeating anything to the reader."""

from __future__ import annotations

from typing import Final

from ...codec.aisdk import ENDINGS
from ...codec.compact import replay_from_fold
from ...codec.encode import encode_parts
from ...errors import FoldError
from ...messages.fold import MessageFold
from ...messages.message import Chunk, UIMessage
from .catch_up import catch_up, open_part_ids
from .late_join import LateJoin

__all__ = ["StreamJoiner"]

_DELTAS: Final = frozenset({"text-delta", "reasoning-delta", "tool-input-delta"})

# Chunks that change nothing in a message: the message does not show whether they were applied.
_LEAVES_NO_TRACE: Final = frozenset({"finish-step", "reset-step"})

NOTHING: Final = -1
"""The cursor of a reader that has no chunk yet."""


class StreamJoiner:
    """Turn the chunks and replays of one turn into the chunks that its reader lacks.

    The reader has the stream up to chunk `cursor`, and `seen` is the fold of what it has. Pass everything that arrives
    to `feed`: single chunks, compacted ones, and replays. A replay begins with another `start`, and ends at the next
    chunk behind the cursor or when `replayed` is called. Applied to what the reader has, the returned chunks fold to
    the message of a reader that saw the whole stream. If no chunks can do that, because a text was replaced, the
    message is sent again: a `start` from `replayed`, or in answer to a replay, tells the reader to start again.

    A replay, together with what follows it, must be complete (R-11). The joiner takes `seen` over and applies chunks
    to it. `base` is the message that a continuation extends.
    """

    def __init__(
        self,
        message_id: str,
        *,
        seen: MessageFold | None = None,
        cursor: int = NOTHING,
        base: UIMessage | None = None,
    ) -> None:
        self._message_id = message_id
        self._base = base
        self._cursor = cursor
        self._fed: int | None = None
        """Index of the last chunk that was fed outside of a replay, also of one that the reader had."""
        self._reader = _Reader(message_id, seen, base)
        self._replay: _Replay | None = None

    @property
    def cursor(self) -> int:
        """The index of the newest chunk that the reader has; -1 before the first."""
        return self._cursor

    @property
    def held(self) -> MessageFold:
        """The fold of what the reader has."""
        return self._reader.fold

    def feed(self, index: int | None, chunk: Chunk) -> list[Chunk]:
        """Return the chunks for the reader; `index` is None for a chunk that the server made for a replay (R-13).

        After the end of the stream there are none. Raises FoldError for a compacted chunk that reaches back behind the
        cursor outside of a replay: which part of it the reader has can only be known from the start on.
        """
        if self._reader.is_over:
            return []
        is_old = index is not None and index <= self._cursor
        if chunk["type"] == "start" and self._replay is None and self._begins_replay(index):
            # A compacted replay has all of a continued message, a replay of single chunks only this turn's.
            self._replay = _Replay(MessageFold(self._message_id, base=None if index is None else self._base))
        if self._replay is not None:
            return self._feed_replay(self._replay, index, chunk, is_old=is_old)
        if is_old:
            self._fed = index
            return []
        if index is not None and chunk["type"] in _DELTAS and self._fed is not None and self._fed < self._cursor:
            raise FoldError(
                f"unable to join at chunk {index}; it may repeat chunks up to {self._cursor}: replay from the start",
                chunk_type=chunk["type"],
            )
        self._advance(index)
        return self._reader.deliver(chunk)

    def replayed(self, index: int | None = None) -> list[Chunk]:
        """End the replay; return what it adds. `index` is that of the last chunk it covers, if known.

        Without a replay under way there is nothing to add.
        """
        replay, self._replay = self._replay, None
        if replay is None or (index is not None and index < self._cursor):
            return []
        self._advance(index)
        return self._reader.catch_up(replay)

    def dropped(self) -> None:
        """Forget a replay that was cut off: the next one has everything again."""
        self._replay = None

    def _begins_replay(self, index: int | None) -> bool:
        """Tell whether a `start` begins a replay; the other one opens the stream."""
        return self._reader.has_begun and (index is None or index > 0 or self._cursor >= 0)

    def _feed_replay(self, replay: _Replay, index: int | None, chunk: Chunk, *, is_old: bool) -> list[Chunk]:
        is_next, is_transient = index is not None and not is_old, bool(chunk.get("transient"))
        if is_transient and index is None:
            replay.transients.append(chunk)
            return []
        is_ending = chunk["type"] in ENDINGS
        if is_ending and is_old:
            self._replay, self._reader.is_over = None, True
            return []
        if is_ending:
            replay.fold.apply(chunk)  # a finish may bring metadata
        if is_ending or (is_next and chunk["type"] in _LEAVES_NO_TRACE):
            chunks = self.replayed()
            self._advance(index)
            return [*chunks, *self._reader.deliver(chunk)]
        replay.fold.apply(chunk)
        if not is_next:
            return []
        chunks = self.replayed(index)
        return [*chunks, *self._reader.deliver(chunk)] if is_transient else chunks

    def _advance(self, index: int | None) -> None:
        if index is not None and index > self._cursor:
            self._cursor = self._fed = index


class _Replay:
    """A replay under way: the message so far, and the transient chunks, which no message has."""

    def __init__(self, fold: MessageFold) -> None:
        self.fold = fold
        self.transients: list[Chunk] = []


class _Reader:
    """What the reader has, and how chunks reach it."""

    def __init__(self, message_id: str, seen: MessageFold | None, base: UIMessage | None) -> None:
        self.has_begun = seen is not None or base is not None
        self.is_over = False
        self.fold = seen if seen is not None else MessageFold(message_id, base=base)
        self._message_id = message_id
        self._join = LateJoin(message_id)
        if self.has_begun:
            for chunk in encode_parts(self.fold.message(), open_parts=self.fold.open_parts, is_replay=False):
                self._join.feed(chunk)
        self._part_ids: dict[tuple[str, str], str] = {}
        """Kind and id of an open part in the stream → the id under which the reader has it open."""
        self._transients = 0
        """Number of transient chunks that were delivered."""

    def deliver(self, chunk: Chunk) -> list[Chunk]:
        """Return what the reader gets for a chunk, and apply it."""
        kind: str = chunk["type"]
        chunks = self._join.feed(self._with_readers_id(kind, chunk) if self._part_ids else chunk)
        for each in chunks:
            self.fold.apply(each)
        self.has_begun = self.has_begun or bool(chunks)
        self._transients += bool(chunk.get("transient"))
        self.is_over = kind in ENDINGS
        return chunks

    def catch_up(self, replay: _Replay) -> list[Chunk]:
        """Deliver what the reader lacks of a replay."""
        missing = catch_up(self.fold, replay.fold)
        if missing is None:
            missing = replay_from_fold(replay.fold)
            self.fold = MessageFold(self._message_id)
            self._join = LateJoin(self._message_id)
        self._part_ids = {}
        delivered = [each for chunk in missing for each in self.deliver(chunk)]
        self._part_ids = open_part_ids(self.fold, replay.fold)
        new = replay.transients[self._transients :]
        return [*delivered, *(each for chunk in new for each in self.deliver(chunk))]

    def _with_readers_id(self, kind: str, chunk: Chunk) -> Chunk:
        """Return the chunk with the id under which the reader has its part open."""
        family, _, moment = kind.partition("-")
        key = (family, chunk.get("id", ""))
        if moment not in ("delta", "end") or key not in self._part_ids:
            if moment == "start":
                self._part_ids.pop(key, None)
            return chunk
        return {**chunk, "id": self._part_ids[key]}
