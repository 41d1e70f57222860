"""The server's own fields of a message: who wrote it and when, under one key of its metadata (R-37).

Clients send back copies of messages. What such a copy has under the key is never believed, and never compared: the
stored fields count.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..ids import Millis

__all__ = ["SERVER_FIELDS", "Author", "fields_of", "new_fields", "with_fields", "without_fields"]

JsonObject = dict[str, Any]

SERVER_FIELDS: Final = "everyword"
"""The key of a message's metadata under which the server's fields are."""


class Author(msgspec.Struct, frozen=True, omit_defaults=True):
    """The person or program that wrote a user message, as the server knows it."""

    id: str
    name: str | None = None


def new_fields(time: Millis, author: Author | None = None) -> JsonObject:
    """Return the fields of a message that is written at `time`, in milliseconds since 1970."""
    fields: JsonObject = {"time": time}
    return fields if author is None else {**fields, "author": msgspec.to_builtins(author)}


def fields_of(message: JsonObject) -> JsonObject | None:
    """Return the server's fields of a message; None if it has none."""
    metadata = message.get("metadata")
    fields = metadata.get(SERVER_FIELDS) if isinstance(metadata, dict) else None
    return fields if isinstance(fields, dict) else None


def with_fields(message: JsonObject, fields: JsonObject | None) -> JsonObject:
    """Return the message with these server fields in the place of its own, or without any.

    Metadata that is no object has no room for them, and stays as it is.
    """
    bare = without_fields(message)
    metadata = bare.get("metadata")
    if fields is None or not isinstance(metadata, dict | None):
        return bare
    return {**bare, "metadata": {**(metadata or {}), SERVER_FIELDS: fields}}


def without_fields(message: JsonObject) -> JsonObject:
    """Return the message as a client that knows nothing of the server's fields has it.

    Metadata in which nothing else is left is left out: with it or without, the client says the same.
    """
    metadata = message.get("metadata")
    if not isinstance(metadata, dict) or (metadata and SERVER_FIELDS not in metadata):
        return message
    kept = {name: value for name, value in metadata.items() if name != SERVER_FIELDS}
    rest = {name: value for name, value in message.items() if name != "metadata"}
    return {**rest, "metadata": kept} if kept else rest
