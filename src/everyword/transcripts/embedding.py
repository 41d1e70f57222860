"""Attachments inside a transcript: `data:` URLs in the place of links that need a login, within limits. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from ..attachments.media_types import SNIFFED, served_type
from ..errors import AttachmentMissing
from ..messages.attachments import attachment_hash
from .document import FilePart, TranscriptMessage

__all__ = ["MOST_IN_EXPORT", "MOST_OF_FILE", "EmbedLimits", "Embedding"]

MOST_OF_FILE: Final = 10 * 1024 * 1024
MOST_IN_EXPORT: Final = 50 * 1024 * 1024


class EmbedLimits(NamedTuple):
    """How many bytes of attachments a transcript may have, before base64 makes them a third longer."""

    file: int = MOST_OF_FILE
    total: int = MOST_IN_EXPORT


@dataclass(slots=True)
class Embedding:
    """Embeds the attachments of one transcript; the caller reads them."""

    limits: EmbedLimits
    used: int = 0

    @property
    def room(self) -> int:
        """How many bytes the next attachment may have."""
        return max(0, min(self.limits.file, self.limits.total - self.used))

    def wanted(self, message: TranscriptMessage) -> Iterator[tuple[int, str]]:
        """Yield the place of each part that is an attachment, and the attachment's hash."""
        for place, part in enumerate(message.parts):
            sha256 = attachment_hash(part.url) if isinstance(part, FilePart) else None
            if sha256 is not None:
                yield place, sha256

    def put(self, message: TranscriptMessage, place: int, content: bytes | Exception | None) -> TranscriptMessage:
        """Return the message with a content embedded, or with the reason why it is not.

        Args:
            message: A message of which `wanted` named the part.
            place: The place of the part.
            content: The content; None if it has more bytes than there is `room`; or what reading it raised.
        """
        part = message.parts[place]
        assert isinstance(part, FilePart)
        parts = list(message.parts)
        if isinstance(content, bytes) and len(content) <= self.room:
            self.used += len(content)
            parts[place] = replace(part, url=_data_url(content))
        else:
            parts[place] = replace(part, left_out=self._reason(content))
        return replace(message, parts=parts)

    def _reason(self, content: bytes | Exception | None) -> str:
        match content:
            case AttachmentMissing():
                return "not stored any more"
            case Exception():
                return "it could not be read"
        if self.limits.total - self.used < self.limits.file:
            return f"all files of an export have at most {_mebibytes(self.limits.total)}"
        return f"larger than {_mebibytes(self.limits.file)}"


def _data_url(content: bytes) -> str:
    """Return a content as a `data:` URL, whose type is what its first bytes say, never what an uploader said."""
    media_type, _ = served_type(content[:SNIFFED])
    return f"data:{media_type};base64,{binascii.b2a_base64(content, newline=False).decode('ascii')}"


def _mebibytes(size: int) -> str:
    return f"{size / 1024 / 1024:.3g} MiB"
