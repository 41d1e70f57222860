"""WebSocket frames as a server sends them: unmasked and uncompressed (RFC 6455, 5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack

from .shared_slices import FramePiece

__all__ = ["framed", "piece_framed"]


def framed(texts: Iterable[bytes]) -> bytes:
    """Return each text as one text frame, joined."""
    pieces: list[bytes] = []
    for text in texts:
        pieces += (_header(0x81, len(text)), text)
    return b"".join(pieces)


def piece_framed(piece: FramePiece) -> bytes:
    """Return whole frames, or a part of one as a fragment: control frames may come between two fragments."""
    if piece.is_first and piece.is_last:
        return framed(piece.slice.parts)
    (part,) = piece.slice.parts
    first = (0x01 if piece.is_first else 0x00) | (0x80 if piece.is_last else 0x00)
    return _header(first, len(part)) + part


def _header(first: int, size: int) -> bytes:
    if size < 126:
        return pack("!BB", first, size)
    if size < 65_536:
        return pack("!BBH", first, 126, size)
    return pack("!BBQ", first, 127, size)
