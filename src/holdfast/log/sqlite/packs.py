"""Rows of the event table: a batch's chunks of one turn lie together in few of them.

A stream that is faster than the disk brings many chunks with each batch. As rows of their own they would cost more
in columns, cells and repetition than in words. A packed row says once what its chunks have in common: `bodies`
has them from `index` on, and a chunk that differs from the one before it in its last text alone (`delta`) is only
that text. What goes in comes out byte for byte, and the row is JSON still: the views read it with plain SQL.

Packing knows how a chunk is encoded (`events.Chunk`): what does not look like it is a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ..base import Entry

__all__ = ["PACK", "Packed", "pack", "unpack"]

PACK = 3_900
"""Bytes that are packed into one row at most: it fits a page, so that nobody who reads or deletes it has to follow a
chain of them."""

_INDEX, _BODY, _BODIES, _TRANSIENT = b',"index":', b',"body":', b',"bodies":[', b',"transient":true}'
_DELTA = b'elta":"'
"""How the last text of a chunk begins: `delta`, or `inputTextDelta`."""


class Packed(NamedTuple):
    """A row: an event, or a run of chunks. `more` says how many there are besides the last."""

    kind: str
    turn: int | None
    more: int
    body: bytes


class _Bodies(msgspec.Struct):
    index: int
    bodies: list[msgspec.Raw]


_decode = msgspec.json.Decoder(_Bodies).decode


class _Run:
    """Chunks that follow each other: `head` is what they begin with, up to the index of the first."""

    __slots__ = ("bodies", "first", "head", "last", "room", "stem")

    def __init__(self, entry: Entry, head: bytes, first: int, body: bytes) -> None:
        self.head, self.first, self.last = head, first, entry
        self.stem, _ = _cut_text(body)
        self.bodies = [body]
        self.room = PACK - len(head) - len(body)

    def takes(self, entry: Entry, head: bytes, index: int, body: bytes) -> bool:
        """Add a chunk, if it is the next one and there is room."""
        if head != self.head or index != self.first + len(self.bodies):
            return False
        stem, text = _cut_text(body)
        said = text if stem and stem == self.stem else body
        if len(said) >= self.room:
            return False
        self.bodies.append(said)
        self.room -= len(said) + 1
        self.stem, self.last = stem, entry
        return True

    def row(self) -> Packed:
        kind, turn, more = self.last.kind, self.last.turn, len(self.bodies) - 1
        if not more:
            return Packed(kind, turn, 0, self.last.body)
        body = b"%b%b%d%b%b]}" % (self.head, _INDEX, self.first, _BODIES, b",".join(self.bodies))
        return Packed(kind, turn, more, body)


def pack(entries: Sequence[Entry]) -> Iterator[Packed]:
    """Give the rows for the entries of one batch, in order."""
    if len(entries) == 1:  # what a slow stream brings
        (only,) = entries
        yield Packed(only.kind, only.turn, 0, only.body)
        return
    run: _Run | None = None
    for entry in entries:
        head, index, body = _cut(entry)
        if run is not None and run.takes(entry, head, index, body):
            continue
        if run is not None:
            yield run.row()
        run = _Run(entry, head, index, body)
    if run is not None:
        yield run.row()


def unpack(body: bytes, more: int) -> list[bytes]:
    """Return the events of a packed row; the row as it is for each of them, where it is not what `pack` made."""
    try:
        found = _decode(body)
    except (msgspec.DecodeError, TypeError):
        return [body] * (more + 1)
    if len(found.bodies) != more + 1:
        return [body] * (more + 1)
    head, stem, events = body.partition(_INDEX)[0], b"", []
    for index, raw in enumerate(found.bodies, start=found.index):
        chunk = bytes(raw)
        if chunk[:1] == b'"':
            chunk = b"%b%b}" % (stem, chunk[1:])
        else:
            stem, _ = _cut_text(chunk)
        events.append(b"%b%b%d%b%b}" % (head, _INDEX, index, _BODY, chunk))
    return events


def _cut(entry: Entry) -> tuple[bytes, int, bytes]:
    """Return what comes before a chunk's index, the index, and the chunk; an index below 0 follows no other."""
    if entry.kind == "chunk" and not entry.body.endswith(_TRANSIENT):
        head, _, rest = entry.body.partition(_INDEX)
        index, _, body = rest.partition(_BODY)
        if body[:1] == b"{" and index.isdigit():
            return head, int(index), body[:-1]
    return b"", -2, b""


def _cut_text(chunk: bytes) -> tuple[bytes, bytes]:
    """Return a chunk up to its last text, if that is a delta and the last thing in it, and the text in quotes."""
    stem, found, rest = chunk.rpartition(_DELTA)
    if not found or not rest.endswith(b'"}') or b'"' in rest[:-2].replace(b'\\"', b""):
        return b"", b""
    return stem + found, b'"' + rest[:-1]
