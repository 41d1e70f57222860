"""What many clients are sent alike is in memory once: replays and transcripts, in slices.

A client that comes back to a long answer is sent megabytes, at the pace at which it reads; with five hundred of them it
matters who holds these bytes. All that is too much for one write is cut at fixed places, and slices of the same bytes
are one object, for as long as somebody still has to be sent them. An answer that grows keeps its beginning, so clients
that come at different times share all but the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

__all__ = ["SLICE", "Piece", "Sharing", "Slice", "joined"]

SLICE: Final = 64 * 1024
"""Bytes that are handed to a socket at once, about: what a client that does not read costs."""

AT_ONCE: Final = 4
"""How many replays are made at the same time. Each takes several times its size until it is cut."""


class Slice:
    """Bytes that several clients may still have to be sent: whole frames, or a part of one."""

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        self.parts = parts


class Piece(NamedTuple):
    """A slice in one client's list. Between `is_first` and `is_last` it is a part of one frame."""

    slice: Slice
    is_first: bool = True
    is_last: bool = True


class Sharing:
    """The slices that are on their way to clients."""

    def __init__(self) -> None:
        self._slices: WeakValueDictionary[tuple[bytes, ...], Slice] = WeakValueDictionary()
        self.making = asyncio.Semaphore(AT_ONCE)
        """Entered to make something large, and left before it is sent."""

    def __len__(self) -> int:
        return len(self._slices)

    def cut(self, frames: list[bytes]) -> list[Piece]:
        """Return the frames in slices, in order. Takes them out of the list, so that nobody else holds them."""
        frames.reverse()
        pieces: list[Piece] = []
        gathered: list[bytes] = []
        size = 0
        while frames:
            frame = frames.pop()
            if gathered and size + len(frame) > SLICE:
                pieces.append(Piece(self._shared(tuple(gathered))))
                gathered, size = [], 0
            if len(frame) > SLICE:
                last = (len(frame) - 1) // SLICE
                for number, part in enumerate(_parts(frame)):
                    pieces.append(Piece(self._shared((part,)), number == 0, number == last))
            else:
                gathered.append(frame)
                size += len(frame)
        if gathered:
            pieces.append(Piece(self._shared(tuple(gathered))))
        return pieces

    def streamed(self, data: Iterable[bytes]) -> list[Slice]:
        """Return a stream of bytes in slices: what is joined to one, and how, does not matter to its reader."""
        slices: list[Slice] = []
        gathered: list[bytes] = []
        size = 0
        for each in data:
            for part in _parts(each):
                gathered.append(part)
                size += len(part)
                if size >= SLICE:
                    slices.append(self._shared((b"".join(gathered),)))
                    gathered, size = [], 0
        if gathered:
            slices.append(self._shared((b"".join(gathered),)))
        return slices

    def _shared(self, parts: tuple[bytes, ...]) -> Slice:
        known = self._slices.get(parts)
        if known is None:
            known = self._slices[parts] = Slice(parts)
        return known


def _parts(frame: bytes) -> Iterator[bytes]:
    if len(frame) <= SLICE:
        yield frame
        return
    for first in range(0, len(frame), SLICE):
        yield frame[first : first + SLICE]


def joined(pieces: list[Piece]) -> Iterator[bytes]:
    """Yield the frames of pieces again, for a server that takes nothing else. Takes the pieces out of the list."""
    pieces.reverse()
    parts: list[bytes] = []
    while pieces:
        piece = pieces.pop()
        if piece.is_first and piece.is_last:
            yield from piece.slice.parts
            continue
        parts += piece.slice.parts
        if piece.is_last:
            yield b"".join(parts)
            parts = []
