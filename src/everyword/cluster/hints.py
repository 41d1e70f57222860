"""Hints: a topic and a payload, sent to another node without waiting and without a promise."""

from __future__ import annotations

from typing import Final

from ..errors import BadLinkFrame

__all__ = ["LONGEST_HINT", "read_hint", "write_hint"]

LONGEST_HINT: Final = 64 * 1024
"""Bytes of one hint. A longer one is dropped: what is large belongs into the store."""


def write_hint(topic: str, payload: bytes) -> bytes:
    """Return a hint as the payload of a frame."""
    name = topic.encode()
    return len(name).to_bytes(2, "big") + name + payload


def read_hint(encoded: bytes) -> tuple[str, bytes]:
    """Return topic and payload.

    Raises:
        BadLinkFrame: this is no hint.
    """
    end = 2 + int.from_bytes(encoded[:2], "big")
    try:
        if len(encoded) >= end:
            return encoded[2:end].decode(), encoded[end:]
    except UnicodeDecodeError:
        pass
    raise BadLinkFrame("unable to read a hint; it is shorter than its topic, or the topic is no text")
