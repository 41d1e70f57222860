"""The records of a relayed request or socket: ASGI messages in a short form. The first byte says which.

What is longer than a record is cut: texts and bytes of a socket into parts, bodies into more messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, Protocol, TypeVar

import msgspec

from ..errors import BadLinkFrame
from .messages import slices_of
from .relay_header import Pairs
from .streams import LONGEST_RECORD

__all__ = ["ACCEPT", "BODY", "BYTES", "BYTES_PART", "CUT", "START", "TEXT", "TEXTS", "TEXT_PART", "Accept"]
__all__ += [
    "FIRST_PART",
    "LAST_PART",
    "Close",
    "MessageJoiner",
    "RelayedPiece",
    "Start",
    "body_records",
    "close_of",
    "fitting",
    "packed",
]
__all__ += ["PROGRESS", "TEXTS_AT", "Progress", "packed_at", "part_records", "piece_records", "read_struct"]
__all__ += ["text_records", "unpacked", "unpacked_at"]

TEXT: Final = b"t"
"""A text message of a socket."""
TEXTS: Final = b"T"
"""Several: u32 length and text, each."""
TEXT_PART: Final = b"p"
"""A part of one: a byte of flags, and the part."""
BYTES: Final = b"b"
BYTES_PART: Final = b"q"
CUT: Final = b"c"
"""A text that the edge's server has cut: u64 size of the whole, and the ends that it kept."""
ACCEPT: Final = b"a"
START: Final = b"s"
"""The beginning of an HTTP response."""
BODY: Final = b"d"
"""A piece of a body: 1 if more follows, else 0, and the piece."""

TEXTS_AT: Final = b"A"
"""Several texts, and the place in the log that they bring the client to: u64, then as TEXTS."""
PROGRESS: Final = b"k"
"""How far a client is that may be taken over by another owner: see `Progress`."""

FIRST_PART: Final = 1
LAST_PART: Final = 2

_LENGTH: Final = Struct(">I")
_PLACE: Final = Struct(">Q")

StructT = TypeVar("StructT", bound=msgspec.Struct)

Record = tuple[bytes, ...]
"""The parts of a record, as a stream takes them."""


class Accept(msgspec.Struct, frozen=True, omit_defaults=True):
    """`websocket.accept`."""

    subprotocol: str | None = None
    headers: Pairs = []


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """`http.response.start`, and the same of a refused socket."""

    status: int
    headers: Pairs = []


class Close(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of END of a socket: `websocket.close` of the owner, `websocket.disconnect` of the client."""

    code: int = 1000
    reason: str = ""
    moves: bool = False
    """The owner gave the agent up, and does not mean the client: see `relay_header.MOVES`."""


class _Slice(Protocol):
    @property
    def parts(self) -> tuple[bytes, ...]: ...


class RelayedPiece(Protocol):
    """A slice of frames as the server has it: whole frames, or a part of one."""

    @property
    def slice(self) -> _Slice: ...
    @property
    def is_first(self) -> bool: ...
    @property
    def is_last(self) -> bool: ...


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a socket is. An owner that takes it over goes on from here.

    `is_open` says that frames follow which lead to the next cursor. The edge holds them until all are there; a socket
    for which it cannot hold them all cannot be taken over in between: it is not known which of them its client has.
    """

    cursor: int = 0
    taken: int = 0
    """How many messages of the client were decided."""
    is_open: bool = False
    is_busy: bool = False
    """The agent's own code works for this client, and the next owner would not know of it."""
    resume: bytes | None = None
    """What the next owner needs besides; None if it has not changed."""


_close: Final = msgspec.json.Decoder(Close).decode


def read_struct(record: bytes, kind: type[StructT]) -> StructT:
    """Read what follows the first byte."""
    try:
        return msgspec.json.decode(record[1:], type=kind)
    except msgspec.MsgspecError:
        raise BadLinkFrame("unable to read a record of a relayed request") from None


def close_of(encoded: bytes) -> Close:
    """Read a close; 1006 if there is nothing to read."""
    try:
        return _close(encoded)
    except msgspec.MsgspecError:
        return Close(1006)


# -- texts and bytes ----------------------------------------------------------------------------------------------


def fitting(texts: list[bytes]) -> int:
    """Return how many of the texts fit into one record."""
    size = 0
    for count, text in enumerate(texts):
        size += _LENGTH.size + len(text)
        if size > LONGEST_RECORD:
            return count
    return len(texts)


def packed(texts: list[bytes]) -> Record:
    """Return texts as one record."""
    if len(texts) == 1:
        return TEXT, texts[0]
    parts = [TEXTS]
    for text in texts:
        parts += (_LENGTH.pack(len(text)), text)
    return tuple(parts)


def unpacked(record: bytes) -> list[bytes]:
    """Return the texts of a record TEXTS."""
    texts: list[bytes] = []
    place = 1
    while place < len(record):
        first = place + _LENGTH.size
        place = first + _LENGTH.unpack_from(record, place)[0]
        texts.append(record[first:place])
    return texts


def packed_at(cursor: int, texts: list[bytes]) -> Record:
    """Return texts as one record that says where they bring the client to."""
    parts = [TEXTS_AT, _PLACE.pack(cursor)]
    for text in texts:
        parts += (_LENGTH.pack(len(text)), text)
    return tuple(parts)


def unpacked_at(record: bytes) -> tuple[int, list[bytes]]:
    """Return the place and the texts of a record TEXTS_AT."""
    return _PLACE.unpack_from(record, 1)[0], unpacked(record[_PLACE.size :])


def text_records(texts: list[bytes]) -> Iterator[Record]:
    """Yield the records of texts of any size."""
    while texts:
        if count := fitting(texts):
            yield packed(texts[:count])
            texts = texts[count:]
        else:
            yield from part_records(TEXT, TEXT_PART, texts[0])
            texts = texts[1:]


def part_records(whole: bytes, part: bytes, data: bytes) -> Iterator[Record]:
    """Yield one message: as one record, or in parts."""
    is_first = True
    for piece, is_last in slices_of(data):
        if is_first and is_last:
            yield whole, piece
        else:
            yield part, _flags(is_first, is_last), piece
        is_first = False


def piece_records(pieces: list[RelayedPiece]) -> Iterator[Record]:
    """Yield the records of a server's pieces. Empties the list, so that what was sent can be freed."""
    pieces.reverse()
    while pieces:
        piece = pieces.pop()
        if piece.is_first and piece.is_last:
            yield from text_records(list(piece.slice.parts))
        else:
            yield TEXT_PART, _flags(piece.is_first, piece.is_last), *piece.slice.parts


def _flags(is_first: bool, is_last: bool) -> bytes:
    return bytes([FIRST_PART * is_first + LAST_PART * is_last])


class MessageJoiner:
    """Joins the parts of a message; refuses one that is too long."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, record: bytes) -> bytes | None:
        """Take a part; return the whole message if it is the last one.

        Raises:
            BadLinkFrame: the message is too long.
        """
        self._parts.append(record[2:])
        self._size += len(record)
        if self._size > self._limit:
            raise BadLinkFrame(f"unable to take a relayed message of more than {self._limit} bytes")
        if not record[1] & LAST_PART:
            return None
        whole = b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole


# -- bodies -------------------------------------------------------------------------------------------------------


def body_records(body: bytes, more: bool) -> Iterable[Record]:
    """Yield the records of a piece of a body."""
    for piece, is_last in slices_of(body):
        yield BODY, b"\1" if more or not is_last else b"\0", piece
