"""A conversation as a file for people: Markdown, HTML or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...transcripts.formats import TranscriptFormat

__all__ = ["ConversationExport", "TranscriptFormat"]


@dataclass(frozen=True, slots=True)
class ConversationExport:
    """A conversation as a file. Iterating over it writes it piece by piece, so that a long one need not be in memory.

    >>> Path(export.filename).write_bytes(export.content)
    """

    media_type: str
    """For example `text/html; charset=utf-8`."""
    filename: str
    """A name for the file, such as `chat-ann.html`: ASCII, without separators."""
    _pieces: Callable[[], Iterator[str]] = field(repr=False)

    @property
    def text(self) -> str:
        """The whole file as text."""
        return "".join(self._pieces())

    @property
    def content(self) -> bytes:
        """The whole file, in UTF-8."""
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the file in UTF-8, piece by piece."""
        return (piece.encode("utf-8", "replace") for piece in self._pieces())
