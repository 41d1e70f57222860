"""The chat message of the AI SDK."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Self

import msgspec

from ..errors import BadMessage
from .json_values import encode_json
from .server_fields import Author, fields_of

__all__ = ["ROLES", "Chunk", "Part", "UIMessage", "is_part"]

Part = dict[str, Any]
"""One part of a message, as JSON on the wire: `{"type": "text", "text": …}`."""

Chunk = dict[str, Any]
"""One chunk of the stream that builds a message, as JSON on the wire: `{"type": "text-delta", …}`."""

ROLES: Final = frozenset({"system", "user", "assistant"})

_OWN_FIELDS: Final = frozenset({"id", "role", "parts", "metadata"})


class UIMessage(msgspec.Struct):
    """A message of the AI SDK. Unknown parts and top-level fields are kept unchanged."""

    id: str
    """Unique within a conversation, except that edits and regenerations keep the id."""
    role: str
    """`system`, `user` or `assistant`."""
    parts: list[Part] = []
    """Text, reasoning, files, sources, data and tool calls, as JSON objects with a `type`."""
    metadata: Any = None
    """The application's own JSON; under the key `everyword`, the server's fields (R-37)."""
    extra: dict[str, Any] = {}
    """Top-level fields other than these."""

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the message of a JSON object, sharing its parts.

        Parts without a type are left out. An old message that has only `content` gets a text part.
        Raises BadMessage if the id, the role or the list of parts is missing or invalid.
        """
        if type(raw) is not dict and not isinstance(raw, Mapping):  # `isinstance(…, Mapping)` is slow
            raise BadMessage(f"unable to read a message; it is {_kind(raw)}, not an object")
        message_id, role = raw.get("id"), raw.get("role")
        if not isinstance(message_id, str) or not message_id:
            raise BadMessage("unable to read a message; its id must be a non-empty string")
        if not isinstance(role, str) or role not in ROLES:
            raise BadMessage(f"unable to read message {message_id!r}; its role is not system, user or assistant")
        parts, content = raw.get("parts"), raw.get("content")
        known = _OWN_FIELDS
        if parts is None and isinstance(content, str):
            parts, known = [{"type": "text", "text": content}], _OWN_FIELDS | {"content"}
        if not isinstance(parts, list):
            raise BadMessage(f"unable to read message {message_id!r}; its parts must be a list")
        return cls(
            id=message_id,
            role=role,
            # `is_part` inlined: long conversations have many parts.
            parts=[part for part in parts if isinstance(part, dict) and isinstance(part.get("type"), str)],
            metadata=raw.get("metadata"),
            extra={} if raw.keys() <= known else {key: value for key, value in raw.items() if key not in known},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, sharing the parts. `metadata` is present only if it is not None."""
        raw: dict[str, Any] = {"id": self.id, "role": self.role}
        if self.metadata is not None:
            raw["metadata"] = self.metadata
        raw["parts"] = self.parts
        if self.extra:
            raw.update(self.extra)
        return raw

    @classmethod
    def decode(cls, body: bytes | str) -> Self:
        """Return the message of a JSON text. Raises BadMessage if it is not a message."""
        try:
            raw = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadMessage(f"unable to read a message; {error}") from error
        return cls.from_dict(raw)

    def encode(self) -> bytes:
        """Return the message as JSON text."""
        return encode_json(self.to_dict())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Support messages in Pydantic models and type hints, as JSON objects."""
        from pydantic_core import core_schema

        def take(given: Any) -> Any:
            try:
                return given if isinstance(given, cls) else cls.from_dict(given)
            except BadMessage as error:
                raise ValueError(str(error)) from None

        shown = core_schema.plain_serializer_function_ser_schema(cls.to_dict)
        return core_schema.no_info_plain_validator_function(take, serialization=shown)

    @property
    def author(self) -> Author | None:
        """The author of a user message, or None if the server does not know one (R-37)."""
        given = (fields_of({"metadata": self.metadata}) or {}).get("author")
        try:
            return msgspec.convert(given, Author) if given is not None else None
        except msgspec.ValidationError:
            return None

    @property
    def time(self) -> datetime | None:
        """When the message was written or started, by the server's clock; None if that is not stored (R-37)."""
        millis = (fields_of({"metadata": self.metadata}) or {}).get("time")
        return datetime.fromtimestamp(millis / 1000, UTC) if isinstance(millis, int) else None

    @property
    def text(self) -> str:
        """The text parts, joined. A part whose text is not a string is skipped."""
        texts = (part.get("text") for part in self.parts if part["type"] == "text")
        return "".join(text for text in texts if isinstance(text, str))


def is_part(value: object) -> bool:
    """Return True if a JSON value is an object with a `type`, as every part is."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
