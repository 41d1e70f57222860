"""The frames of a link: `u32 length, u8 kind, u32 stream, payload`, big-endian. The length is that of the payload.

Pure: bytes in, frames out. A frame of an unknown kind is for a newer release; the link ignores it.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

from ..errors import BadLinkFrame

__all__ = ["CREDIT", "DATA", "END", "HELLO", "HINT", "LONGEST_PAYLOAD", "OPEN", "PING", "PONG", "PROOF", "REFUSE"]
__all__ += ["HEADER", "RESET", "STOP", "Frame", "FrameParser", "encode_frame"]

HEADER: Final = Struct(">IBI")
"""Length of the payload, kind, number of the stream (0 for frames of the link itself)."""

LONGEST_PAYLOAD: Final = 256 * 1024
"""Bytes of one payload. Longer things are cut by the layer that sends them."""

Frame: TypeAlias = tuple[int, int, bytes]
"""Kind, number of the stream, payload."""

# Before the link is established.
HELLO: Final = 1
PROOF: Final = 2
REFUSE: Final = 3
# Of the link itself.
PING: Final = 4
PONG: Final = 5
HINT: Final = 6
"""Topic and payload, sent without waiting."""
# Of one stream.
OPEN: Final = 16
"""Begins a stream. The payload is its header."""
DATA: Final = 17
"""One record. It uses up credit."""
END: Final = 18
"""The last frame of one direction. The payload says how it ended, in the words of the layer above."""
CREDIT: Final = 19
"""As many more bytes may be sent: u32."""
RESET: Final = 20
"""Ends both directions at once. The payload says why."""
STOP: Final = 21
"""What the other end still sends is not read any more."""


def encode_frame(kind: int, stream: int, *parts: bytes) -> bytes:
    """Return one frame; its payload is the parts, joined."""
    return b"".join((HEADER.pack(sum(map(len, parts)), kind, stream), *parts))


class FrameParser:
    """Finds frames in bytes that arrive in any portions. Holds at most one incomplete frame."""

    def __init__(self, limit: int = LONGEST_PAYLOAD) -> None:
        self.limit = limit
        """Bytes of the longest payload. May be changed between two frames."""
        self._rest = bytearray()
        self._needed = HEADER.size
        """Bytes of `_rest` at which the next frame, or its header, is complete."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now. The caller must take all of them, or stop using the parser.

        Raises:
            BadLinkFrame: a payload is longer than `limit`; raised when its header is read.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
            self._rest.clear()
        place, size, head = 0, len(data), HEADER.size
        self._needed = head
        while size - place >= head:
            length, kind, stream = HEADER.unpack_from(data, place)
            if length > self.limit:
                raise BadLinkFrame(f"unable to read a frame of {length} bytes; {self.limit} is the limit")
            end = place + head + length
            if end > size:
                self._needed = head + length
                break
            yield kind, stream, data[place + head : end]
            place = end
        self._rest += data[place:]
