"""Attachments in memory, for a store that is lost when the process ends."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator

from ..ids import Millis
from .base import Blob, BlobStore, missing

__all__ = ["MemoryBlobStore"]

PIECE = 256 * 1024


class MemoryBlobStore(BlobStore):
    """A dictionary of bytes."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[bytes, Millis]] = {}

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        self._kept[key] = b"".join([piece async for piece in pieces]), _now()

    async def move(self, source: str, target: str) -> None:
        content, _ = self._kept.pop(source)
        self._kept[target] = content, _now()

    async def read(self, key: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        content = self.read_now(key)
        end = len(content) if length is None else min(start + length, len(content))
        for place in range(start, end, PIECE):
            yield content[place : min(place + PIECE, end)]

    def read_now(self, key: str, length: int | None = None) -> bytes:
        """Return a content, or its first `length` bytes, without waiting."""
        if key not in self._kept:
            raise missing(key)
        return self._kept[key][0][:length]

    async def find(self, key: str) -> Blob | None:
        kept = self._kept.get(key)
        return Blob(key, len(kept[0]), kept[1]) if kept is not None else None

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        for key, (content, modified) in list(self._kept.items()):
            if key.startswith(prefix):
                yield Blob(key, len(content), modified)

    async def delete(self, key: str) -> None:
        self._kept.pop(key, None)

    async def aclose(self) -> None:
        """Keep everything: the app may be started again."""


def _now() -> Millis:
    return Millis(time.time_ns() // 1_000_000)
