"""Replays in few chunks: a watcher who missed ten thousand deltas gets one that says the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..messages.fold import MessageFold
from ..messages.message import Chunk
from .encode import encode_parts

__all__ = ["compact", "replay_from_fold"]

# Delta types: the field that names the part, and the field that grows.
_GROWS: Final = {
    "text-delta": ("id", "delta"),
    "reasoning-delta": ("id", "delta"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
}


def compact(chunks: Iterable[tuple[int, Chunk]]) -> list[tuple[int, Chunk]]:
    """Join neighbouring deltas of one part into one, which carries the last index that it covers (R-13).

    Everything else keeps its place and its index, transient parts too. The result folds to the same
    message, wherever in the stream the chunks begin.
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
    """Return an open stream as few chunks: closed parts whole, open ones as their start and one delta.

    The chunks that follow in the stream fit behind it. Answered approvals are left out, because clients
    reject a request whose answer they did not see (R-2); transient parts are not in a fold at all.
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
