"""Put the server's fields, time and author, on every message that is placed in the tree (R-37)."""

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
    """The time and the author that a command puts on its messages."""

    now: Millis
    principal: Identity | None
    """The principal of the command: the author of its user messages."""
    believes: Literal["nothing", "answers", "all"]
    """Which messages keep the fields that they come with. Those of a client, and questions, never do."""

    def put_on(self, message: JsonObject) -> JsonObject:
        """Return a new message with its fields. A message of the agent's own code may have them already."""
        is_question = message["role"] == "user"
        is_believed = self.believes == "all" or (self.believes == "answers" and not is_question)
        known = fields_of(message) if is_believed else None
        return with_fields(message, known or new_fields(self.now, _author(self.principal) if is_question else None))


def _author(principal: Identity | None) -> Author | None:
    return Author(principal.id, principal.name) if principal is not None and principal != LOCAL else None


def stamped_change(message: JsonObject, stored: bytes | None, stamp: Stamp | None) -> JsonObject:
    """Return a message that replaces a stored one.

    A user message that a client changes gets new fields. Any other message keeps the stored ones.
    """
    if stamp is not None and message["role"] == "user":
        return stamp.put_on(message)
    known = fields_of(msgspec.json.decode(stored)) if stored is not None else None
    return with_fields(message, known or (fields_of(message) if stamp is None else None))


def is_start(chunk: bytes) -> bool:
    """Return whether an encoded chunk has the type `start`, and not a longer type such as `start-step`."""
    return chunk.startswith(_START) and chunk[len(_START)] in b",}"


def stamped_start(chunk: bytes, now: Millis) -> bytes:
    """Return the first chunk of an answer with the time in its metadata, from where every client takes it."""
    start = msgspec.json.decode(chunk)
    stamped = with_fields({"metadata": start.get("messageMetadata")}, new_fields(now))
    return msgspec.json.encode({**start, "messageMetadata": stamped["metadata"]})
