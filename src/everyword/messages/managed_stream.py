"""What a ResumableStreamManager's stream is made of: chunks with an index each, and cuts.

A cut takes back every chunk from an index on: a later attempt says something else from there. Whoever folds what is
stored, or what was sent, in order, has the stream as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..ids import Millis
from .json_values import encode_json, scrub_text

__all__ = ["ManagedChunk", "ManagedRecord", "ManagedStream", "decode_record", "encode_record", "fold_managed_stream"]


class ManagedRecord(msgspec.Struct, frozen=True, array_like=True):
    """One chunk event of a managed stream, as its body says it. Without content it is a cut at `index`."""

    index: int
    content: str | None
    restarts: int = 0
    """How many cuts there were before and with it: what was said before a cut is older than what was said after."""


class ManagedChunk(msgspec.Struct, frozen=True):
    """One chunk of a stream as it stands."""

    index: int
    content: str
    at: Millis


class ManagedStream(msgspec.Struct, frozen=True):
    """A stream as it stands: its chunks by index."""

    chunks: list[ManagedChunk]
    restarts: int = 0

    @property
    def text(self) -> str:
        return "".join(chunk.content for chunk in self.chunks)


_decoder = msgspec.json.Decoder(ManagedRecord)


def encode_record(index: int, content: str | None, restarts: int) -> bytes:
    """Return the body of the chunk event that says this."""
    said = scrub_text(content) if content is not None else None
    return encode_json([index, said, restarts])


def decode_record(body: bytes) -> ManagedRecord | None:
    """Return what a body says; None for one that is not of a managed stream."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return None


def fold_managed_stream(said: Iterable[tuple[Millis, bytes]]) -> ManagedStream:
    """Return the stream that bodies, with the times when they were said, fold to; the first of an index counts."""
    chunks: dict[int, ManagedChunk] = {}
    restarts = 0
    for at, body in said:
        piece = decode_record(body)
        if piece is None:
            continue
        restarts = max(restarts, piece.restarts)
        if piece.content is None:
            chunks = {index: chunk for index, chunk in chunks.items() if index < piece.index}
        elif piece.index not in chunks:
            chunks[piece.index] = ManagedChunk(piece.index, piece.content, at)
    return ManagedStream([chunks[index] for index in sorted(chunks)], restarts)
