"""Scanning the frames of a client before the parser keeps anything of them (RFC 6455, 5.2).

A WebSocket parser keeps a frame until its last byte, and a message until its last fragment: the client decides how
much memory that takes. The scanner reads only the headers, and counts. Of a message that is larger than the limit it
keeps the two ends, because the id of a request is in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from websockets.utils import apply_mask

__all__ = ["END", "FrameScanner", "OversizedMessage"]

END: Final = 4096
"""Bytes that are kept of both ends of an oversized message."""

CONTROL: Final = 0x8
"""The bit of an opcode that marks a control frame: ping, pong or close."""


@dataclass(slots=True)
class OversizedMessage:
    """A message that is larger than the limit: its size, and its two ends."""

    size: int
    head: bytes = b""
    tail: bytes = b""
    is_begun: bool = False
    """Whether the parser has its first fragments, which came before the limit was exceeded."""

    def add(self, piece: bytes, mask: bytes, offset: int) -> None:
        """Add a piece of the payload that begins at `offset` of its frame."""
        if len(self.head) < END:
            first = piece[: END - len(self.head)]
            self.head += apply_mask(first, _turned(mask, offset))
            piece, offset = piece[len(first) :], offset + len(first)
        last = piece[-END:]
        self.tail = (self.tail + apply_mask(last, _turned(mask, offset + len(piece) - len(last))))[-END:]

    @property
    def text(self) -> str:
        """Both ends as text; bytes that are not text are replaced."""
        return (self.head + self.tail).decode(errors="replace")


def _turned(mask: bytes, offset: int) -> bytes:
    place = offset % 4
    return mask[place:] + mask[:place]


class _Frame(NamedTuple):
    """What the header of a frame says."""

    payload: int = 0
    """Bytes of the payload."""
    mask: bytes = b""
    is_control: bool = False
    is_last: bool = False
    """Whether it is the last fragment of its message."""


class FrameScanner:
    """Follows the frames of one client, in whatever pieces they arrive."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._header = bytearray()
        """The header of the next frame, as far as it has arrived."""
        self._frame = _Frame()
        """The present frame."""
        self._left = 0
        """Bytes of its payload that have not arrived."""
        self.announced = 0
        """Bytes of the incomplete message, including the whole payload of its present frame."""
        self.passed = 0
        """Bytes of the incomplete message that the parser keeps until the message is complete."""
        self.fragments = 0
        """Frames of the incomplete message; 0 when the last message is complete."""
        self.messages = 0
        """Complete messages so far."""
        self.controls = 0
        """Pings, pongs and closes so far."""
        self.oversized: OversizedMessage | None = None
        """The incomplete message, if it is larger than the limit."""

    def scan(self, data: bytes, begin: int, most: int) -> tuple[bytes, int]:
        """Return the bytes of `data` from `begin` that the parser gets, and the place up to which `data` was read.

        Reads at most `most` frames, and stops at the end of an oversized message: take it with `take_oversized`.
        """
        passed: list[bytes] = []
        place, frames = begin, 0
        while place < len(data) and frames < most:
            if not self._left:
                place = self._read_header(data, place, passed)
            frame = self._frame
            if self._left:
                piece = data[place : place + self._left]
                if self.oversized is not None and not frame.is_control:
                    self.oversized.add(piece, frame.mask, frame.payload - self._left)
                else:
                    passed.append(piece)
                    self.passed += 0 if frame.is_control else len(piece)
                place, self._left = place + len(piece), self._left - len(piece)
            if self._left or self._header:
                break  # the rest has not arrived
            frames += 1
            if not frame.is_control and frame.is_last:
                self.announced = self.passed = self.fragments = 0
                self.messages += 1
                if self.oversized is not None:
                    break
        return b"".join(passed), place

    @property
    def has_whole_oversized(self) -> bool:
        """Whether an oversized message has arrived completely."""
        return self.oversized is not None and not self.fragments

    def take_oversized(self) -> OversizedMessage:
        """Return the oversized message, and forget it."""
        oversized, self.oversized = self.oversized, None
        assert oversized is not None
        return oversized

    def _read_header(self, data: bytes, place: int, passed: list[bytes]) -> int:
        """Read the next header, as far as it has arrived; return where its payload begins."""
        header = self._header
        while len(header) < (needed := _length_of(header)):
            if place >= len(data):
                return place
            taken = data[place : place + needed - len(header)]
            header += taken
            place += len(taken)
        mask = bytes(header[-4:]) if header[1] & 0x80 else bytes(4)
        frame = self._frame = _Frame(_payload_of(header), mask, bool(header[0] & CONTROL), bool(header[0] & 0x80))
        self._left = frame.payload
        if frame.is_control:
            self.controls += 1
        else:
            self.announced += frame.payload
            self.fragments += 1
            if self.oversized is not None:
                self.oversized.size = self.announced
            elif self.announced > self._limit:
                self.oversized, self.passed = OversizedMessage(self.announced, is_begun=self.fragments > 1), 0
        if frame.is_control or self.oversized is None:
            passed.append(bytes(header))
        header.clear()
        return place


def _length_of(header: bytearray) -> int:
    """Return the length of a header, as far as its first bytes tell it."""
    if len(header) < 2:
        return 2
    more = {126: 2, 127: 8}.get(header[1] & 0x7F, 0)
    return 2 + more + (4 if header[1] & 0x80 else 0)


def _payload_of(header: bytearray) -> int:
    size = header[1] & 0x7F
    return size if size < 126 else int.from_bytes(header[2 : 4 if size == 126 else 10])
