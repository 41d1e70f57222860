"""Whether a client's message is a copy of a stored one.

Clients do not send back the bytes that they were sent. A browser leaves out what is undefined, writes 21.0 as 21 and
rounds integers beyond 2**53. A page that only watched an answer has it from the stock hook's own fold, which knows no
ids of reasoning, no dynamic tools and no provider metadata of most parts. Such a copy says nothing new, and nothing of
the server's own fields (R-37).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .message import Part, is_part
from .server_fields import without_fields
from .tool_calls import is_tool_part, tool_name

__all__ = ["is_copy", "is_equal", "part_key", "still_streams"]

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
"""The fields of an answer's parts that every client has."""

_NOT_COPIED: Final = frozenset({"custom", "reasoning-file", "steering-message"})
"""Parts of an answer that a page does not have if it only watched."""


def is_copy(message: JsonObject, stored: JsonObject) -> bool:
    """Tell whether a client's message says what the stored one says, under the same id and role."""
    try:
        return _message_key(message) == _message_key(stored)
    except RecursionError:  # nested more deeply than anything that is stored
        return False


def is_equal(message: JsonObject, stored: JsonObject) -> bool:
    """Tell whether a client's message is the stored one in every field, as JSON of a browser can have them."""
    try:
        return _full_key(message) == _full_key(stored)
    except RecursionError:
        return False


def part_key(part: Part) -> bytes:
    """Return a value that an answer's part and the copies of it have in common, and no other part.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return _encoded(_copied(part))


def still_streams(message: JsonObject) -> bool:
    """Tell whether a part of the message was not complete when the client sent it."""
    return any(is_part(part) and part.get("state") in _STREAMING for part in message["parts"])


def _message_key(message: JsonObject) -> bytes:
    if message["role"] != "assistant":
        return _full_key(message)
    parts = [_copied(part) for part in message["parts"] if is_part(part) and part["type"] not in _NOT_COPIED]
    return _encoded({**_without_none(without_fields(message)), "parts": parts})


def _full_key(message: JsonObject) -> bytes:
    parts = [_without_none(part) for part in message["parts"] if is_part(part)]
    return _encoded({**_without_none(without_fields(message)), "parts": parts})


def _copied(part: Part) -> JsonObject:
    if is_tool_part(part):
        return _copied_call(part)
    kind: str = part["type"]
    fields = ("id", "data") if kind.startswith("data-") else _COPIED.get(kind)
    if fields is None:
        return _without_none(part)
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
        "input": taken if isinstance(taken, dict) else {},  # the hook makes an object of anything else
        "value": value,
    }


def _without_none(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _encoded(value: JsonObject) -> bytes:
    return msgspec.json.encode(_with_floats(value), order="sorted")


def _with_floats(value: Any) -> Any:
    """Return the value with every number as JavaScript has it."""
    if isinstance(value, dict):
        return {name: _with_floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
