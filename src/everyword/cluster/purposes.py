"""What a stream is for: the first byte of its header. A stream with another purpose is for a newer release: refused."""

from __future__ import annotations

from typing import Final

__all__ = ["CALL", "RELAY"]

RELAY: Final = b"\1"
CALL: Final = b"\2"
