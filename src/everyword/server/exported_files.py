"""Exported conversations as responses: a file that the browser saves, written as fast as the client reads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

from ..agents import ConversationExport
from .shared_slices import SLICE
from .streamed_response import StreamedResponse

__all__ = ["exported_file", "gathered"]

SAFE_HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # A browser that shows the file in spite of its disposition runs and loads nothing.
    "content-security-policy": "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
}


def exported_file(export: ConversationExport, seat: AbstractContextManager[Any]) -> StreamedResponse:
    """Return the response; `seat` is held while it is written."""
    headers = {
        "content-type": export.media_type,
        "content-disposition": f'attachment; filename="{export.filename}"',
        **SAFE_HEADERS,
    }
    return StreamedResponse(gathered(export), headers, seat)


async def gathered(pieces: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the pieces, small ones together."""
    gathered: list[bytes] = []
    size = 0
    async for piece in pieces if isinstance(pieces, AsyncIterable) else _each(pieces):
        gathered.append(piece)
        size += len(piece)
        if size >= SLICE:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


async def _each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
