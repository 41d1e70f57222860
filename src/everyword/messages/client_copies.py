"""Whether a client's message is a copy of a stored one.

A browser does not send back the bytes that it was sent: it leaves out what is undefined, writes 21.0 as 21, rounds
integers beyond 2**53, and the stock hook's copy of a stream has its own idea of a text's `state` and of a static call's
`toolName`. Such a copy says nothing new.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .message import is_part

__all__ = ["copy_key", "is_copy", "still_streams"]

JsonObject = dict[str, Any]

_STREAMING: Final = ("streaming", "input-streaming")


def is_copy(message: JsonObject, stored: JsonObject) -> bool:
    """Tell whether a client's message says what the stored one says, under the same id and role."""
    try:
        return _message_key(message) == _message_key(stored)
    except RecursionError:  # nested more deeply than anything that is stored
        return False


def copy_key(part: JsonObject) -> bytes:
    """Return a value that is the same for a part and its copies, and another for any other part.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return msgspec.json.encode(_plain(_without_noise(part)), order="sorted")


def still_streams(message: JsonObject) -> bool:
    """Tell whether a part of the message was not complete when the client sent it."""
    return any(is_part(part) and part.get("state") in _STREAMING for part in message["parts"])


def _message_key(message: JsonObject) -> bytes:
    fields = {name: _plain(value) for name, value in message.items() if name != "parts" and value is not None}
    parts = [_plain(_without_noise(part)) for part in message["parts"] if is_part(part)]
    return msgspec.json.encode({**fields, "parts": parts}, order="sorted")


def _without_noise(part: JsonObject) -> JsonObject:
    kind: str = part["type"]
    noise = "state" if kind in ("text", "reasoning") else "toolName" if kind.startswith("tool-") else None
    return {name: value for name, value in part.items() if value is not None and name != noise}


def _plain(value: Any) -> Any:
    """Return the value with every number as JavaScript has it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
