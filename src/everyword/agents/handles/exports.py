"""A conversation as a file for people: Markdown, HTML or JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from ...errors import AttachmentMissing, AttachmentsUnavailable, UsageError
from ...transcripts.document import TranscriptMessage, is_large
from ...transcripts.embedding import Embedding, EmbedLimits
from ...transcripts.formats import Transcript, TranscriptFormat

__all__ = ["ConversationExport", "EmbeddedAttachments", "ReadsAttachments", "TranscriptFormat"]


class ReadsAttachments(Protocol):
    """Reads attachments of one conversation; None for a content of more than `most` bytes."""

    async def read(self, sha256: str, most: int) -> bytes | None: ...

    def read_now(self, sha256: str, most: int) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class EmbeddedAttachments:
    """Puts attachments into the messages of an export, one message at a time."""

    reader: ReadsAttachments
    limits: EmbedLimits

    async def each(self, messages: Iterator[TranscriptMessage]) -> AsyncIterator[TranscriptMessage]:
        """Yield the messages with their attachments."""
        embedding = Embedding(self.limits)
        for message in messages:
            for place, sha256 in embedding.wanted(message):
                content: bytes | Exception | None
                try:
                    content = await self.reader.read(sha256, embedding.room)
                except (AttachmentMissing, AttachmentsUnavailable) as exc:
                    content = exc
                message = await asyncio.to_thread(embedding.put, message, place, content)
            yield message

    def each_now(self, messages: Iterator[TranscriptMessage]) -> Iterator[TranscriptMessage]:
        """Yield the messages with their attachments, without waiting."""
        embedding = Embedding(self.limits)
        for message in messages:
            for place, sha256 in embedding.wanted(message):
                content: bytes | Exception | None
                try:
                    content = self.reader.read_now(sha256, embedding.room)
                except (AttachmentMissing, AttachmentsUnavailable) as exc:
                    content = exc
                except UsageError as exc:
                    raise UsageError(
                        "unable to write the export without waiting; its attachments are in object storage. "
                        "Use `await export.read()` or `async for piece in export`"
                    ) from exc
                message = embedding.put(message, place, content)
            yield message


@dataclass(frozen=True, slots=True)
class ConversationExport:
    """A conversation as a file. Iterating over it writes it piece by piece, so that the file is never whole in memory.

    >>> Path(export.filename).write_bytes(await export.read())

    `async for` and `read()` leave other agents their time while attachments are read, and work with every place of
    attachments. Without `await`, attachments in object storage cannot be read, which raises `UsageError`.
    """

    media_type: str
    """For example `text/html; charset=utf-8`."""
    filename: str
    """A name for the file, such as `chat-ann.html`: ASCII, without separators."""
    _transcript: Transcript = field(repr=False)
    _attachments: EmbeddedAttachments | None = field(default=None, repr=False)

    async def read(self) -> bytes:
        """Return the whole file, in UTF-8."""
        return b"".join([piece async for piece in self])

    @property
    def text(self) -> str:
        """The whole file as text."""
        return "".join(self._texts())

    @property
    def content(self) -> bytes:
        """The whole file, in UTF-8."""
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the file in UTF-8, piece by piece."""
        return (_encoded(piece) for piece in self._texts())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the file in UTF-8, piece by piece; at most one message with its attachments is in memory."""
        form, messages, is_first = self._transcript.form, self._transcript.messages(), True
        yield _encoded(form.opening(self._transcript.head))
        async for message in self._attachments.each(messages) if self._attachments is not None else _each(messages):
            pieces: Iterable[str] = form.message(message, is_first)
            for piece in await asyncio.to_thread(list, pieces) if is_large(message) else pieces:
                yield _encoded(piece)
            is_first = False
        yield _encoded(form.closing)

    def _texts(self) -> Iterator[str]:
        messages = self._transcript.messages()
        embedded = self._attachments.each_now(messages) if self._attachments is not None else messages
        return self._transcript.form.write(self._transcript.head, embedded)


def _encoded(piece: str) -> bytes:
    return piece.encode("utf-8", "replace")


async def _each(messages: Iterator[TranscriptMessage]) -> AsyncIterator[TranscriptMessage]:
    for message in messages:
        yield message
