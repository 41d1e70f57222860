"""Tell whether a message that a client sends is a copy of a stored message.

A copy is not byte-equal to what the client received. A browser leaves out undefined fields, writes 21.0 as 21 and
rounds integers beyond 2**53. A page that only watched an answer has folded it with the stock hook, which drops ids of
reasoning parts, dynamic tools and the provider metadata of most parts. Such a copy adds nothing, and the comparison
ignores the server's own fields (R-37).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .attachments import FILE_TYPES, attachment_hash
from .message import Part, is_part
from .server_fields import without_fields
from .tool_calls import is_tool_part, tool_name

__all__ = ["is_copy", "is_equal", "part_key", "still_streams", "with_plain_urls"]

JsonObject = dict[str, Any]

_STREAMING: Final = ("streaming", "input-streaming")

_COPIED: Final = {
    "text": ("text",),
    "reasoning": ("text",),
    "file": ("mediaType", "url"),
    "source-url": ("sourceId", "url", "title"),
    "source-document": ("sourceId", "mediaType", "title", "filename"),
    "step-start": (),
}
"""Part type → the fields that every client keeps."""

_NOT_COPIED: Final = frozenset({"custom", "reasoning-file", "steering-message"})
"""Part types that a page does not have if it only watched the answer."""


def is_copy(message: JsonObject, stored: JsonObject) -> bool:
    """Return True if a client's message is a copy of the stored one: same id, role and content."""
    try:
        return _message_key(message) == _message_key(stored)
    except RecursionError:  # stored messages are never nested this deeply
        return False


def is_equal(message: JsonObject, stored: JsonObject) -> bool:
    """Return True if the messages are equal in every field, up to a browser's changes to JSON numbers and nulls."""
    try:
        return _full_key(message) == _full_key(stored)
    except RecursionError:
        return False


def part_key(part: Part) -> bytes:
    """Return a key that is equal for an answer's part and its copies, and different for any other part.

    Raises:
        RecursionError: the part is nested too deeply.
    """
    return _encoded(_copied(part))


def still_streams(message: JsonObject) -> bool:
    """Return True if a part of the message was still streaming when the client sent it."""
    return any(is_part(part) and part.get("state") in _STREAMING for part in message["parts"])


def with_plain_urls(message: JsonObject) -> JsonObject:
    """Return the message with the hash of each attachment in the place of its URL.

    The same attachment may have different URLs: those of another host, or of another path of the app.
    """
    if not any(_is_attachment(part) for part in message["parts"]):
        return message
    return {**message, "parts": [_plain_file(part) if is_part(part) else part for part in message["parts"]]}


def _is_attachment(part: Any) -> bool:
    return is_part(part) and part["type"] in FILE_TYPES and attachment_hash(part.get("url")) is not None


def _plain_file(part: Part) -> Part:
    return {**part, "url": attachment_hash(part["url"])} if _is_attachment(part) else part


def _message_key(message: JsonObject) -> bytes:
    if message["role"] != "assistant":
        return _full_key(message)
    parts = [_copied(part) for part in message["parts"] if is_part(part) and part["type"] not in _NOT_COPIED]
    return _encoded({**_without_none(without_fields(message)), "parts": parts})


def _full_key(message: JsonObject) -> bytes:
    parts = [_without_none(_plain_file(part)) for part in message["parts"] if is_part(part)]
    return _encoded({**_without_none(without_fields(message)), "parts": parts})


def _copied(part: Part) -> JsonObject:
    if is_tool_part(part):
        return _copied_call(part)
    kind: str = part["type"]
    fields = ("id", "data") if kind.startswith("data-") else _COPIED.get(kind)
    if fields is None:
        return _without_none(part)
    part = _plain_file(part)
    return {"type": kind, **{name: part[name] for name in fields if part.get(name) is not None}}


def _copied_call(part: Part) -> JsonObject:
    state = part.get("state")
    settled = {"output-available": "output", "output-error": "errorText"}.get(str(state))
    value = part.get(settled) if settled is not None else None
    taken = part.get("input") if part.get("input") is not None else part.get("rawInput")
    return {
        "call": part["toolCallId"],
        "tool": tool_name(part),
        "state": state,
        "input": taken if isinstance(taken, dict) else {},  # the stock hook replaces anything else by an object
        "value": value,
    }


def _without_none(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _encoded(value: JsonObject) -> bytes:
    return msgspec.json.encode(_with_floats(value), order="sorted")


def _with_floats(value: Any) -> Any:
    """Return the value with every number as a float, as JavaScript has it."""
    if isinstance(value, dict):
        return {name: _with_floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
