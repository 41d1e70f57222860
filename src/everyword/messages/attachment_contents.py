"""Give models the contents of attachments: a `data:` URL, or a link, in the place of a URL for clients."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from msgspec.structs import replace

from ..errors import AttachmentMissing
from .attachments import FILE_TYPES, attachment_hash
from .message import UIMessage, is_part

__all__ = [
    "MOST_FOR_MODEL",
    "as_data_url",
    "attachment_reader",
    "attachments_in",
    "images_in",
    "with_contents",
    "with_read_contents",
]

MOST_FOR_MODEL: Final = 50 * 1024 * 1024
"""Bytes of attachments that a model is given at once, those of the newest messages first. Providers take less."""

Read = Callable[[str, int], bytes | None]
"""Reads a content by its hash; None if it has more than so many bytes."""

attachment_reader: ContextVar[Read | None] = ContextVar("everyword_attachment_reader", default=None)
"""Reads an attachment of the agent whose code runs, by its hash. The adapters use it for messages that have URLs."""

Message = UIMessage | Mapping[str, Any]


def attachments_in(messages: Sequence[Message]) -> list[str]:
    """Return the hash of each attachment in messages, those of the newest message first."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        for part in _parts(message):
            sha256 = _hash_of(part)
            if sha256 is not None:
                found[sha256] = None
    return list(found)


def images_in(messages: Sequence[Message]) -> set[str]:
    """Return the hashes of attachments that messages have only as images."""
    parts = [(sha256, part) for message in messages for part in _parts(message) if (sha256 := _hash_of(part))]
    others = {sha256 for sha256, part in parts if not str(part.get("mediaType")).lower().startswith("image/")}
    return {sha256 for sha256, _ in parts} - others


def with_contents(messages: Sequence[Message], urls: Mapping[str, str | None]) -> list[Message]:
    """Return the messages with `urls[hash]` in the place of each attachment's URL.

    A text stands for one that is None, because it is too large, and for one that is left out: it is not stored.
    """
    return [_with_contents(message, urls) for message in messages]


def with_read_contents(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the contents of attachments, if code of an agent runs that can read them at once."""
    read, hashes = attachment_reader.get(), attachments_in(messages)
    if read is None or not hashes:
        return list(messages)
    urls, left = dict[str, str | None](), MOST_FOR_MODEL
    for sha256 in hashes:
        try:
            content = read(sha256, left)
        except AttachmentMissing:
            continue
        left -= len(content or b"")
        urls[sha256] = as_data_url(content) if content is not None else None
    return with_contents(messages, urls)


def as_data_url(content: bytes) -> str:
    """Return a content as a `data:` URL. It has no type: that of its part counts."""
    return f"data:application/octet-stream;base64,{binascii.b2a_base64(content, newline=False).decode()}"


def _with_contents(message: Message, urls: Mapping[str, str | None]) -> Message:
    if not any(_hash_of(part) is not None for part in _parts(message)):
        return message
    parts = [_with_content(part, urls) for part in _parts(message)]
    return replace(message, parts=parts) if isinstance(message, UIMessage) else {**message, "parts": parts}


def _with_content(part: Any, urls: Mapping[str, str | None]) -> Any:
    sha256 = _hash_of(part)
    if sha256 is None:
        return part
    url, media_type = urls.get(sha256), str(part.get("mediaType") or "")
    if url is None:
        name = str(part.get("filename") or sha256[:8])
        why = "there are too many files" if sha256 in urls else "it is not stored any more"
        return {"type": "text", "text": f"[The file {name} ({media_type}) cannot be shown; {why}.]"}
    if url.startswith("data:") and media_type:
        url = f"data:{media_type}{url[url.index(';') :]}"
    return {**part, "url": url}


def _hash_of(part: Any) -> str | None:
    return attachment_hash(part.get("url")) if is_part(part) and part["type"] in FILE_TYPES else None


def _parts(message: Message) -> Sequence[Any]:
    parts = message.parts if isinstance(message, UIMessage) else message.get("parts")
    return parts if isinstance(parts, list) else []
