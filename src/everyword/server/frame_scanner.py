"""Walking over the frames that a client sends, before anything is kept of them (RFC 6455, 5.2).

A WebSocket parser keeps a frame until its last byte, and a message until its last fragment: the client decides how
much memory that takes. The walker reads only the headers. It counts, and of a message that is larger than the limit it
keeps the two ends, in which the id of a request is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from websockets.utils import apply_mask

__all__ = ["END", "FrameScanner", "OversizedMessage"]

END: Final = 4096
"""Bytes that are kept of both ends of a message that is too large."""

CONTINUATION: Final = 0x0
CONTROL: Final = 0x8
"""The bit of an opcode that says: ping, pong or close."""


@dataclass(slots=True)
class OversizedMessage:
    """A message that is too large: how large, and its two ends."""

    size: int
    head: bytes = b""
    tail: bytes = b""
    is_begun: bool = False
    """Whether its first fragments were passed on before it was too large."""

    def add(self, piece: bytes, mask: bytes, offset: int) -> None:
        """Take some more of its payload, which begins at `offset` of its frame."""
        if len(self.head) < END:
            first = piece[: END - len(self.head)]
            self.head += apply_mask(first, _turned(mask, offset))
            piece, offset = piece[len(first) :], offset + len(first)
        last = piece[-END:]
        self.tail = (self.tail + apply_mask(last, _turned(mask, offset + len(piece) - len(last))))[-END:]

    @property
    def text(self) -> str:
        """Both ends, as far as they are text."""
        return (self.head + self.tail).decode(errors="replace")


def _turned(mask: bytes, offset: int) -> bytes:
    place = offset % 4
    return mask[place:] + mask[:place]


class FrameScanner:
    """Where in the frames of one client its last byte was."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._header = bytearray()
        self._payload, self._left = 0, 0
        """The size of the present frame's payload, and how much of it is still to come."""
        self._mask = b""
        self._is_control = self._is_last = False
        self.announced = 0
        """Bytes of the unfinished message, with all that its present frame says is to come."""
        self.passed = 0
        """Bytes of the unfinished message that were passed on, and are kept until it is whole."""
        self.fragments = 0
        """Frames of the unfinished message; 0 when the last message is whole."""
        self.messages = 0
        """Messages that came whole so far."""
        self.controls = 0
        """Pings, pongs and closes so far."""
        self.cut: OversizedMessage | None = None
        """The unfinished message, if it is larger than the limit."""

    def walk(self, data: bytes, begin: int, most: int) -> tuple[bytes, int]:
        """Return what is passed on of `data` from `begin` on, and how far that goes.

        Goes no further than over `most` frames, and stops where a message that is cut ends: take it with `take_cut`.
        """
        passed: list[bytes] = []
        place, frames = begin, 0
        while place < len(data) and frames < most:
            if not self._left:
                place = self._read_header(data, place, passed)
            if self._left:
                piece = data[place : place + self._left]
                if self.cut is not None and not self._is_control:
                    self.cut.add(piece, self._mask, self._payload - self._left)
                else:
                    passed.append(piece)
                    self.passed += 0 if self._is_control else len(piece)
                place, self._left = place + len(piece), self._left - len(piece)
            if self._left or self._header:
                break  # the rest has not come yet
            frames += 1
            if not self._is_control and self._is_last:
                self.announced = self.passed = self.fragments = 0
                self.messages += 1
                if self.cut is not None:
                    break
        return b"".join(passed), place

    @property
    def cut_is_whole(self) -> bool:
        """Whether a message that was cut has come to its end."""
        return self.cut is not None and not self.fragments

    def take_cut(self) -> OversizedMessage:
        """Return the message that was cut, and forget it."""
        cut, self.cut = self.cut, None
        assert cut is not None
        return cut

    def _read_header(self, data: bytes, place: int, passed: list[bytes]) -> int:
        """Read the next header, as far as it is there; return where its payload begins."""
        header = self._header
        while len(header) < (needed := _length_of(header)):
            if place >= len(data):
                return place
            taken = data[place : place + needed - len(header)]
            header += taken
            place += len(taken)
        self._payload = self._left = _payload_of(header)
        self._mask = bytes(header[-4:]) if header[1] & 0x80 else bytes(4)
        self._is_control, self._is_last = bool(header[0] & CONTROL), bool(header[0] & 0x80)
        if self._is_control:
            self.controls += 1
        else:
            self.announced += self._payload
            self.fragments += 1
            if self.cut is not None:
                self.cut.size = self.announced
            elif self.announced > self._limit:
                self.cut, self.passed = OversizedMessage(self.announced, is_begun=bool(self.fragments > 1)), 0
        if self._is_control or self.cut is None:
            passed.append(bytes(header))
        header.clear()
        return place


def _length_of(header: bytearray) -> int:
    """Return how long a header is, as far as its first bytes say."""
    if len(header) < 2:
        return 2
    more = {126: 2, 127: 8}.get(header[1] & 0x7F, 0)
    return 2 + more + (4 if header[1] & 0x80 else 0)


def _payload_of(header: bytearray) -> int:
    size = header[1] & 0x7F
    return size if size < 126 else int.from_bytes(header[2 : 4 if size == 126 else 10])
