"""Stored parts that can be used: a malformed one is passed over, and the rest of its message counts.

Clients cannot store malformed parts, but older files and an application's own code may have. The test is about types
only, and cheap: it runs for every part of a conversation that is handed to a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from .message import Part, UIMessage, is_part
from .tool_calls import is_tool_part

__all__ = ["is_readable", "keep_readable_parts", "unreadable_parts"]


def is_readable(part: Part) -> bool:
    """Tell whether the fields that make up a part of this type have the types that they must have.

    A part of a type that we do not know is readable: what it means is the application's business.
    """
    kind: str = part["type"]
    if kind.startswith("tool-") or kind == "dynamic-tool":
        return is_tool_part(part)
    test = _TESTS.get(kind)
    return test is None or test(part)


def keep_readable_parts(message: UIMessage) -> UIMessage:
    """Return the message without the parts that cannot be read: itself when there are none."""
    for part in message.parts:
        # Nearly all parts are these, and a call for each of a long conversation would be felt.
        kind = part["type"]
        if (kind != "text" or type(part.get("text")) is not str) and kind != "step-start" and not is_readable(part):
            return replace(message, parts=[part for part in message.parts if is_readable(part)])
    return message


def unreadable_parts(message: UIMessage) -> list[str]:
    """Return a phrase for each part that `keep_readable_parts` leaves out."""
    return [
        f"part {position} ({part['type'][:64]}) of message {message.id[:64]!r}"
        for position, part in enumerate(message.parts)
        if not is_readable(part)
    ]


def _has(*names: str) -> Callable[[Part], bool]:
    return lambda part: all(isinstance(part.get(name), str) for name in names)


def _is_steering(part: Part) -> bool:
    said: Any = part.get("parts")
    return isinstance(said, list) and all(is_part(each) and _is_said(each) for each in said)


def _is_said(part: Part) -> bool:
    return part["type"] in ("text", "file") and is_readable(part)


_TESTS: Final[dict[str, Callable[[Part], bool]]] = {
    "text": _has("text"),
    "reasoning": _has("text"),
    "file": _has("url", "mediaType"),
    "reasoning-file": _has("url", "mediaType"),
    "source-url": _has("sourceId", "url"),
    "source-document": _has("sourceId", "mediaType", "title"),
    "custom": _has("kind"),
    "steering-message": _is_steering,
}
