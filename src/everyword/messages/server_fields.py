"""The server's own fields of a message: its author and time, under one key of its metadata (R-37).

Clients send back copies of messages. The server ignores these fields in a copy and uses the stored ones.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..ids import Millis

__all__ = ["SERVER_FIELDS", "Author", "fields_of", "new_fields", "with_fields", "without_fields"]

JsonObject = dict[str, Any]

SERVER_FIELDS: Final = "everyword"
"""The metadata key of the server's fields."""


class Author(msgspec.Struct, frozen=True, omit_defaults=True):
    """The person or program that wrote a user message, as the server knows it."""

    id: str
    name: str | None = None


def new_fields(time: Millis, author: Author | None = None) -> JsonObject:
    """Return the server fields of a message written at `time`, in milliseconds since 1970."""
    fields: JsonObject = {"time": time}
    return fields if author is None else {**fields, "author": msgspec.to_builtins(author)}


def fields_of(message: JsonObject) -> JsonObject | None:
    """Return the server fields of a message, or None if it has none."""
    metadata = message.get("metadata")
    fields = metadata.get(SERVER_FIELDS) if isinstance(metadata, dict) else None
    return fields if isinstance(fields, dict) else None


def with_fields(message: JsonObject, fields: JsonObject | None) -> JsonObject:
    """Return the message with its server fields replaced by `fields`, or removed if `fields` is None.

    Metadata that is not an object cannot hold server fields and is not changed.
    """
    bare = without_fields(message)
    metadata = bare.get("metadata")
    if fields is None or not isinstance(metadata, dict | None):
        return bare
    return {**bare, "metadata": {**(metadata or {}), SERVER_FIELDS: fields}}


def without_fields(message: JsonObject) -> JsonObject:
    """Return the message without its server fields.

    Metadata that is empty then is removed: for a client, empty and absent metadata mean the same.
    """
    metadata = message.get("metadata")
    if not isinstance(metadata, dict) or (metadata and SERVER_FIELDS not in metadata):
        return message
    kept = {name: value for name, value in metadata.items() if name != SERVER_FIELDS}
    rest = {name: value for name, value in message.items() if name != "metadata"}
    return {**rest, "metadata": kept} if kept else rest
