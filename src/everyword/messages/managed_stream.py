"""The stream of a ResumableStreamManager: chunks, each with an index, and cuts.

A cut removes every chunk from an index on, because a later attempt writes something else from there. Folding the
stored or sent chunk events in order gives the current stream.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..ids import Millis
from .json_values import encode_json, scrub_text

__all__ = [
    "ManagedChunk",
    "ManagedChunkEvent",
    "ManagedStream",
    "decode_chunk_event",
    "encode_chunk_event",
    "fold_managed_stream",
]


class ManagedChunkEvent(msgspec.Struct, frozen=True, array_like=True):
    """The body of one chunk event of a managed stream. Without content it is a cut at `index`."""

    index: int
    content: str | None
    restarts: int = 0
    """Number of cuts up to and including this event: tells events before a cut from those after it."""


class ManagedChunk(msgspec.Struct, frozen=True):
    """One chunk of the current stream."""

    index: int
    content: str
    at: Millis


class ManagedStream(msgspec.Struct, frozen=True):
    """The current stream: its chunks in the order of their indexes."""

    chunks: list[ManagedChunk]
    restarts: int = 0

    @property
    def text(self) -> str:
        return "".join(chunk.content for chunk in self.chunks)


_decoder = msgspec.json.Decoder(ManagedChunkEvent)


def encode_chunk_event(index: int, content: str | None, restarts: int) -> bytes:
    """Return the body of a chunk event."""
    text = scrub_text(content) if content is not None else None
    return encode_json([index, text, restarts])


def decode_chunk_event(body: bytes) -> ManagedChunkEvent | None:
    """Return the chunk event of a body, or None if the body is not of a managed stream."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return None


def fold_managed_stream(bodies: Iterable[tuple[Millis, bytes]]) -> ManagedStream:
    """Return the current stream from (time, body) pairs. If an index occurs twice, the first one counts."""
    chunks: dict[int, ManagedChunk] = {}
    restarts = 0
    for at, body in bodies:
        event = decode_chunk_event(body)
        if event is None:
            continue
        restarts = max(restarts, event.restarts)
        if event.content is None:
            chunks = {index: chunk for index, chunk in chunks.items() if index < event.index}
        elif event.index not in chunks:
            chunks[event.index] = ManagedChunk(event.index, event.content, at)
    return ManagedStream([chunks[index] for index in sorted(chunks)], restarts)
