"""Attachments in messages: the URL that a file part has, the hashes that stored bytes refer to, and large `data:` URLs.

An attachment is named by the SHA-256 of its content, so the same photo has the same URL in one conversation, however
often it is sent. What stands before `/attachments/` in the URL may change (another host, another path of the app); a
reader takes only the hash from it, and looks in its own conversation.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from ..ids import AgentId, split_agent_id
from .message import Part, is_part

__all__ = [
    "FILE_TYPES",
    "MovedFile",
    "agent_path",
    "attachment_hash",
    "attachment_url",
    "decode_data_url",
    "find_references",
    "large_data_urls",
    "move_data_urls",
    "referenced_by",
    "with_agent_path",
]

JsonObject = dict[str, Any]

FILE_TYPES: Final = frozenset({"file", "reasoning-file"})
"""Types of parts whose `url` is a file: one that a person or a model sends, or that a model makes while it reasons."""

_HASH: Final = re.compile(r"/attachments/([0-9a-f]{64})(?:[?#]|$)")
_IS_BASE64: Final = re.compile(r"; *base64$", re.IGNORECASE)
_REFERENCE: Final = re.compile(rb"/attachments/([0-9a-f]{64})(?![0-9a-f])")


class MovedFile(NamedTuple):
    """The content of a `data:` URL that was replaced by the URL of an attachment."""

    sha256: str
    media_type: str
    filename: str | None
    content: bytes
    message: str
    """The id of the message that it was in."""


def agent_path(agent: AgentId) -> str:
    """Return the path of an agent below the app's base path: `/chat/ann`, `/chat/ann/sub/helper/one`."""
    root, *below = agent.split("/sub/")
    kind, name = split_agent_id(AgentId(root))
    # The names of sub-agents are percent-encoded in the id already.
    return "".join([f"/{quote(kind)}/{quote(name, safe='')}", *(f"/sub/{each}" for each in below)])


def attachment_url(prefix: str, agent: AgentId, sha256: str) -> str:
    """Return the URL of an attachment; `prefix` is where the agents are found: `/agents`, or an absolute URL."""
    return f"{prefix}{agent_path(agent)}/attachments/{sha256}"


def attachment_hash(url: object) -> str | None:
    """Return the hash that the URL of an attachment ends with; None for any other URL."""
    if not isinstance(url, str) or url.startswith("data:"):
        return None
    found = _HASH.search(url)
    return found[1] if found is not None else None


def find_references(body: bytes) -> set[str]:
    """Return the hashes of all attachments whose URLs are in encoded JSON, wherever in it."""
    return {found.decode() for found in _REFERENCE.findall(body)}


def referenced_by(messages: Iterable[JsonObject]) -> set[str]:
    """Return the hashes of the attachments that the file parts of messages have as URLs."""
    found = (attachment_hash(part.get("url")) for message in messages for part in _file_parts(message))
    return {sha256 for sha256 in found if sha256 is not None}


def with_agent_path(body: bytes, old: AgentId, new: AgentId) -> bytes:
    """Return encoded JSON with the attachment URLs of one agent changed to those of another."""
    pattern = re.compile(
        re.escape(agent_path(old).encode()) + rb"(?=(?:/sub/[^/\"]+/[^/\"]+)*/attachments/[0-9a-f]{64})"
    )
    return pattern.sub(agent_path(new).encode().replace(b"\\", b"\\\\"), body)


def large_data_urls(message: JsonObject, limit: int) -> set[str]:
    """Return the `data:` URLs of more than `limit` characters that the file parts of a message have."""
    return {part["url"] for part in _file_parts(message) if _is_large(part, limit)}


def move_data_urls(
    messages: Sequence[JsonObject], limit: int, url_of: Callable[[str], str], type_of: Callable[[str, bytes], str]
) -> tuple[list[JsonObject], list[MovedFile]]:
    """Return the messages with `url_of(hash)` in the place of each large `data:` URL, and the contents.

    `type_of` returns the media type that a part gets: of the type that it has, and its content. A `data:` URL that
    cannot be decoded stays where it is.
    """
    moved: list[MovedFile] = []
    return [_moved_message(message, limit, url_of, type_of, moved) for message in messages], moved


def _moved_message(
    message: JsonObject,
    limit: int,
    url_of: Callable[[str], str],
    type_of: Callable[[str, bytes], str],
    moved: list[MovedFile],
) -> JsonObject:
    if not large_data_urls(message, limit):
        return message
    parts: list[Any] = []
    for part in message["parts"]:
        content = decode_data_url(part["url"]) if _is_file(part) and _is_large(part, limit) else None
        if content is None:
            parts.append(part)
            continue
        sha256 = hashlib.sha256(content).hexdigest()
        name = part.get("filename")
        given = part.get("mediaType")
        media_type = type_of(given if isinstance(given, str) else "", content)
        moved.append(
            MovedFile(sha256, media_type, name if isinstance(name, str) else None, content, str(message["id"]))
        )
        parts.append({**part, "mediaType": media_type, "url": url_of(sha256)})
    return {**message, "parts": parts}


def _file_parts(message: Mapping[str, Any]) -> Iterable[Part]:
    parts = message.get("parts")
    return filter(_is_file, parts) if isinstance(parts, list) else ()


def _is_file(part: Any) -> bool:
    return is_part(part) and part["type"] in FILE_TYPES


def _is_large(part: Mapping[str, Any], limit: int) -> bool:
    url = part.get("url")
    return isinstance(url, str) and len(url) > limit and url[:5].lower() == "data:"


def decode_data_url(url: str) -> bytes | None:
    """Return the content of a `data:` URL, as a browser reads it; None if it has none, or is not valid."""
    head, comma, body = url.partition(",")
    if not comma:
        return None
    content = unquote_to_bytes(body) if "%" in body or not body.isascii() else body.encode()
    if _IS_BASE64.search(head) is None:
        return content or None
    # Line breaks and missing padding are allowed. Other characters are not; without `strict_mode` they are left out.
    content = content.translate(None, b" \t\n\f\r").rstrip(b"=")
    try:
        return binascii.a2b_base64(content + b"=" * (-len(content) % 4), strict_mode=True) or None
    except (binascii.Error, ValueError):
        return None
