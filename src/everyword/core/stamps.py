"""The server's fields of messages, put on where a message is placed: whatever way it came, it has them (R-37)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from ..events import LOCAL, Identity
from ..ids import Millis
from ..messages.server_fields import Author, fields_of, new_fields, with_fields

__all__ = ["Stamp", "is_start", "stamped_change", "stamped_start"]

JsonObject = dict[str, Any]

_START: Final = b'{"type":"start"'


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a command puts on the messages that it brings."""

    now: Millis
    principal: Identity | None
    """For whom the command is given: the author of its user messages."""
    believes: Literal["nothing", "answers", "all"]
    """Of which messages the fields are kept that they come with: none of a client's, and no question's."""

    def put_on(self, message: JsonObject) -> JsonObject:
        """Return a new message with its fields. Our own code may store a message that has its fields already."""
        is_question = message["role"] == "user"
        is_believed = self.believes == "all" or (self.believes == "answers" and not is_question)
        known = fields_of(message) if is_believed else None
        return with_fields(message, known or new_fields(self.now, _author(self.principal) if is_question else None))


def _author(principal: Identity | None) -> Author | None:
    return Author(principal.id, principal.name) if principal is not None and principal != LOCAL else None


def stamped_change(message: JsonObject, stored: bytes | None, stamp: Stamp | None) -> JsonObject:
    """Return a message that takes the place of a stored one.

    A user message that a client changes says something else now, so it is stamped anew; anything else keeps the fields
    that are stored.
    """
    if stamp is not None and message["role"] == "user":
        return stamp.put_on(message)
    known = fields_of(msgspec.json.decode(stored)) if stored is not None else None
    return with_fields(message, known or (fields_of(message) if stamp is None else None))


def is_start(chunk: bytes) -> bool:
    """Tell whether an encoded chunk begins a message; other types that begin alike are longer."""
    return chunk.startswith(_START) and chunk[len(_START)] in b",}"


def stamped_start(chunk: bytes, now: Millis) -> bytes:
    """Return the first chunk of an answer with the time in its metadata: every client folds it alike."""
    start = msgspec.json.decode(chunk)
    stamped = with_fields({"metadata": start.get("messageMetadata")}, new_fields(now))
    return msgspec.json.encode({**start, "messageMetadata": stamped["metadata"]})
