"""Pack the chunks of one turn that are in one batch into few rows of the event table.

A stream that is faster than the disk has many chunks in each batch. As rows of their own, their columns, cells and
repeated fields would cost more than their text. A packed row has the fields that its chunks share once. `bodies` has
the chunks, starting at `index`; a chunk that differs from the previous one only in its last text (`delta`) is stored as
that text alone. Unpacking returns the same bytes. The row is still JSON, so the views read it with plain SQL.

Packing depends on how a chunk is encoded (`events.Chunk`): an entry that looks different gets a row of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..ids import Seq
from .base import Entry

__all__ = ["MAX_PACKED_BYTES", "Packed", "chunks_in_row", "pack", "repack", "unpack"]

MAX_PACKED_BYTES = 3_980
"""Bytes of a packed row at most: it fits into one page, so that no chain of overflow pages has to be followed."""

_INDEX, _BODY, _BODIES = b',"index":', b',"body":', b',"bodies":['
_DELTA, _DELTAS = b'elta":"', (b'"d', b'"inputTextD')
"""How the last text of a chunk starts: `delta` or `inputTextDelta`."""


Packed = tuple[str, int | None, int, bytes]
"""A row, for one event or several chunks: kind, turn, number of events before the last one, body."""


class _Bodies(msgspec.Struct):
    index: int
    bodies: list[msgspec.Raw]


_decode = msgspec.json.Decoder(_Bodies).decode


def pack(entries: Sequence[Entry]) -> list[Packed]:
    """Return the rows for the entries of one batch, in order."""
    place, count = 0, len(entries)
    rows: list[Packed] = []
    while place < count:
        bodies, body = _run(entries, place) if place + 1 < count else (1, b"")
        place += bodies
        last = entries[place - 1]
        rows.append((last.kind, last.turn, bodies - 1, last.body if bodies == 1 else body))
    return rows


def _run(entries: Sequence[Entry], begin: int) -> tuple[int, bytes]:
    """Return the number of consecutive chunks that start at `begin` and fit into one row, and the body of that row.

    One loop with few calls: it runs for every chunk of a busy server, while the event loop waits for the interpreter.
    """
    head, first, body = _cut(entries[begin])
    if first < 0:
        return 1, b""
    lead, stem, bodies = head + _INDEX, _BODY + _stem(body), [body]
    room, index = MAX_PACKED_BYTES - len(head) - len(body), first
    for place in range(begin + 1, len(entries)):
        index += 1
        given, start = entries[place].body, b"%b%d%b" % (lead, index, stem)
        said = given[len(start) : -3]
        is_like = len(stem) > len(_BODY) and given.startswith(start) and given.endswith(b'"}}')
        if is_like and b'"' not in said and b"\\u" not in said:  # SQL cannot represent \u0000
            said = b'"%b"' % said  # only the text differs from the previous chunk
        else:
            other, number, said = _cut(entries[place])
            if other != head or number != index:
                break
            stem = _BODY + _stem(said)
        room -= len(said) + 1
        if room < 0:
            break
        bodies.append(said)
    return len(bodies), b"%b%d%b%b]}" % (lead, first, _BODIES, b",".join(bodies))


def unpack(body: bytes | str, more: int) -> list[bytes]:
    """Return the events of a packed row. If `pack` did not make the row, return the row itself for each of them."""
    if isinstance(body, str):  # the row was edited by hand
        body = body.encode()
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
            stem = _stem(chunk)
        events.append(b"%b%b%d%b%b}" % (head, _INDEX, index, _BODY, chunk))
    return events


def chunks_in_row(chunks: Mapping[Seq, bytes], last: int, more: int) -> dict[int, bytes]:
    """Return those of some chunks, given by seq, that are in the row of event `last`, by their place in the row."""
    return {seq - last + more: body for seq, body in chunks.items() if last - more <= seq <= last}


def repack(body: bytes | str, more: int, new: Mapping[int, bytes]) -> bytes:
    """Return a packed row with other chunks in the place of some, by their place in the row. It may be longer."""
    events = [new.get(place, event) for place, event in enumerate(unpack(body, more))]
    first, _, rest = events[0].partition(_BODY)
    bodies = [rest[:-1], *(each.partition(_BODY)[2][:-1] for each in events[1:])]
    return b"%b%b%b]}" % (first, _BODIES, b",".join(bodies))


def _cut(entry: Entry) -> tuple[bytes, int, bytes]:
    """Return the bytes before a chunk's index, the index, and the chunk. The index is -2 if it cannot be packed."""
    if entry.kind == "chunk":
        head, _, rest = entry.body.partition(_INDEX)
        index, _, body = rest.partition(_BODY)
        # Only an object can be packed, and only if no field follows it (`transient`).
        if body[:1] == b"{" and body[-2:-1] == b"}" and index.isdigit():
            return head, int(index), body[:-1]
    return b"", -2, b""


def _stem(chunk: bytes) -> bytes:
    """Return a chunk up to its last text, if that is a delta and the last field; otherwise nothing."""
    stem, found, rest = chunk.rpartition(_DELTA)
    if not found or not rest.endswith(b'"}') or b'"' in rest[:-2].replace(b'\\"', b""):
        return b""
    is_known = stem.endswith(_DELTAS) and (stem.endswith(_DELTAS[0]) or b'"delta"' not in stem)
    return stem + found if is_known else b""
