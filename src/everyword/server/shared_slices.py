"""Replays and transcripts in slices that clients share, so that equal bytes are in memory once.

A client that resumes a long answer is sent megabytes, as fast as it reads. Five hundred such clients must not hold five
hundred copies. Data that is too large for one write is cut at fixed offsets, and equal slices are one object until the
last client has been sent it. An answer only grows at its end, so clients that resume at different times share the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

__all__ = ["SLICE", "FramePiece", "SharedSlice", "SharedSlices", "joined"]

SLICE: Final = 64 * 1024
"""Bytes that are handed to a socket at once, about: what a client that does not read costs."""

AT_ONCE: Final = 4
"""How many replays are made at the same time. Each takes several times its size until it is cut."""


class SharedSlice:
    """Bytes that several clients may still have to be sent: whole frames, or a part of one."""

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        self.parts = parts


class FramePiece(NamedTuple):
    """A slice in one client's list. Between `is_first` and `is_last` it is a part of one frame."""

    slice: SharedSlice
    is_first: bool = True
    is_last: bool = True


class SharedSlices:
    """The slices that are on their way to clients."""

    def __init__(self) -> None:
        self._slices: WeakValueDictionary[tuple[bytes, ...], SharedSlice] = WeakValueDictionary()
        self.build_slots = asyncio.Semaphore(AT_ONCE)
        """Limits how many replays are built at the same time; released before the replay is sent."""

    def __len__(self) -> int:
        return len(self._slices)

    def slice_frames(self, frames: list[bytes]) -> list[FramePiece]:
        """Return the frames in slices, in order. Empties the list, so that the whole frames can be freed."""
        frames.reverse()
        pieces: list[FramePiece] = []
        gathered: list[bytes] = []
        size = 0
        while frames:
            frame = frames.pop()
            if gathered and size + len(frame) > SLICE:
                pieces.append(FramePiece(self._shared(tuple(gathered))))
                gathered, size = [], 0
            if len(frame) > SLICE:
                last = (len(frame) - 1) // SLICE
                for number, part in enumerate(_parts(frame)):
                    pieces.append(FramePiece(self._shared((part,)), number == 0, number == last))
            else:
                gathered.append(frame)
                size += len(frame)
        if gathered:
            pieces.append(FramePiece(self._shared(tuple(gathered))))
        return pieces

    def slice_stream(self, data: Iterable[bytes]) -> list[SharedSlice]:
        """Return a stream of bytes in slices; its reader does not depend on where it is cut."""
        slices: list[SharedSlice] = []
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

    def _shared(self, parts: tuple[bytes, ...]) -> SharedSlice:
        known = self._slices.get(parts)
        if known is None:
            known = self._slices[parts] = SharedSlice(parts)
        return known


def _parts(frame: bytes) -> Iterator[bytes]:
    if len(frame) <= SLICE:
        yield frame
        return
    for first in range(0, len(frame), SLICE):
        yield frame[first : first + SLICE]


def joined(pieces: list[FramePiece]) -> Iterator[bytes]:
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
