"""Skip malformed stored parts, so that the rest of their message stays usable.

Clients cannot store malformed parts, but older files and an application's own code may contain them. The check looks
at types only and is cheap: it runs for every part of a conversation that is given to a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from .message import Part, UIMessage, is_part
from .tool_calls import is_tool_part

__all__ = ["is_readable", "keep_readable_parts", "unreadable_parts"]


def is_readable(part: Part) -> bool:
    """Return True if the required fields of the part have the right types.

    A part of an unknown type is readable: its meaning is up to the application.
    """
    kind: str = part["type"]
    if kind.startswith("tool-") or kind == "dynamic-tool":
        return is_tool_part(part)
    test = _TESTS.get(kind)
    return test is None or test(part)


def keep_readable_parts(message: UIMessage) -> UIMessage:
    """Return a copy of the message without its unreadable parts, or the message itself if there are none."""
    for part in message.parts:
        # Nearly all parts are text or step-start: skip the function call for them, long conversations have many.
        kind = part["type"]
        if (kind != "text" or type(part.get("text")) is not str) and kind != "step-start" and not is_readable(part):
            return replace(message, parts=[part for part in message.parts if is_readable(part)])
    return message


def unreadable_parts(message: UIMessage) -> list[str]:
    """Return a description of each part that `keep_readable_parts` leaves out."""
    return [
        f"part {position} ({part['type'][:64]}) of message {message.id[:64]!r}"
        for position, part in enumerate(message.parts)
        if not is_readable(part)
    ]


def _has(*names: str) -> Callable[[Part], bool]:
    return lambda part: all(isinstance(part.get(name), str) for name in names)


def _is_steering(part: Part) -> bool:
    parts: Any = part.get("parts")
    return isinstance(parts, list) and all(
        is_part(each) and each["type"] in ("text", "file") and is_readable(each) for each in parts
    )


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
