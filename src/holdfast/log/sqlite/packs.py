"""Rows of the event table: a batch's chunks of one turn lie together in few of them.

A stream that is faster than the disk brings many chunks with each batch. As rows of their own they would cost more
in columns, cells and calls of SQLite than in words; together they say once what they have in common. What goes
in comes out byte for byte, and the packed row is JSON still: the views read it with plain SQL.

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


def pack(entries: Sequence[Entry]) -> Iterator[Packed]:
    """Give the rows for the entries of one batch, in order."""
    if len(entries) == 1:  # what a slow stream brings
        (only,) = entries
        yield Packed(only.kind, only.turn, 0, only.body)
        return
    run: list[Entry] = []
    bodies: list[bytes] = []
    stem, first, room = b"", 0, 0
    for entry in entries:
        head, index, body = _cut(entry)
        if run and head == stem and index == first + len(run) and len(body) <= room:
            run.append(entry)
            bodies.append(body)
        else:
            if run:
                yield _together(run, stem, first, bodies)
            run, bodies, stem, first, room = [entry], [body], head, index, PACK - len(head)
        room -= len(body) + 1
    if run:
        yield _together(run, stem, first, bodies)


def _cut(entry: Entry) -> tuple[bytes, int, bytes]:
    """Return what comes before a chunk's index, the index, and the chunk; an index below 0 follows no other."""
    if entry.kind != "chunk" or entry.body.endswith(_TRANSIENT):
        return b"", -2, b""
    head, _, rest = entry.body.partition(_INDEX)
    index, found, body = rest.partition(_BODY)
    return (head, int(index), body[:-1]) if found and index.isdigit() else (b"", -2, b"")


def _together(run: list[Entry], stem: bytes, first: int, bodies: list[bytes]) -> Packed:
    last = run[-1]
    if len(run) == 1:
        return Packed(last.kind, last.turn, 0, last.body)
    body = b"%b%b%d%b%b]}" % (stem, _INDEX, first, _BODIES, b",".join(bodies))
    return Packed(last.kind, last.turn, len(run) - 1, body)


def unpack(body: bytes, more: int) -> list[bytes]:
    """Return the events of a packed row; the row as it is for each of them, where it is not what `pack` made."""
    try:
        found = _decode(body)
    except (msgspec.DecodeError, TypeError):
        return [body] * (more + 1)
    if len(found.bodies) != more + 1:
        return [body] * (more + 1)
    stem = body.partition(_INDEX)[0]
    return [b"%b%b%d%b%b}" % (stem, _INDEX, found.index + i, _BODY, each) for i, each in enumerate(found.bodies)]
