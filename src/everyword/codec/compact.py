"""Shorten streams for replay: a client that missed ten thousand deltas gets one delta with the same text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..messages.fold import MessageFold
from ..messages.message import Chunk
from .encode import encode_parts

__all__ = ["compact", "replay_from_fold"]

# Delta type → the field with the part's id, and the field with the delta.
_GROWS: Final = {
    "text-delta": ("id", "delta"),
    "reasoning-delta": ("id", "delta"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
}


def compact(chunks: Iterable[tuple[int, Chunk]]) -> list[tuple[int, Chunk]]:
    """Join consecutive deltas of one part into one delta with the index of the last (R-13).

    All other chunks, transient parts included, keep their place and index. The result folds to the same message,
    wherever in the stream the chunks begin.
    """
    compacted: list[tuple[int, Chunk]] = []
    run: list[Chunk] = []
    last = 0
    for index, chunk in chunks:
        if run and not _continues(run[-1], chunk):
            compacted.append((last, _joined(run)))
            run = []
        if chunk["type"] in _GROWS:
            run.append(chunk)
            last = index
        else:
            compacted.append((index, chunk))
    if run:
        compacted.append((last, _joined(run)))
    return compacted


def replay_from_fold(fold: MessageFold) -> list[Chunk]:
    """Return the stream so far as few chunks: closed parts complete, open parts as their start and one delta.

    The next chunks of the stream can be applied after them. Answered approvals are left out, because clients reject a
    request whose answer they did not see (R-2). A fold has no transient parts.
    """
    message = fold.message()
    return encode_parts(message, open_parts=fold.open_parts, is_replay=True)


def _continues(before: Chunk, chunk: Chunk) -> bool:
    if before["type"] != chunk["type"]:
        return False
    name, _ = _GROWS[chunk["type"]]
    return bool(before[name] == chunk[name])


def _joined(run: list[Chunk]) -> Chunk:
    if len(run) == 1:
        return run[0]
    _, grows = _GROWS[run[0]["type"]]
    joined = {**run[0], grows: "".join(chunk[grows] for chunk in run)}
    metadata = next((m for chunk in reversed(run) if (m := chunk.get("providerMetadata")) is not None), None)
    if metadata is not None:
        joined["providerMetadata"] = metadata
    return joined
