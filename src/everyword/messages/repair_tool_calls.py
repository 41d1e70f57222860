"""Give every unfinished tool call a result: providers refuse a conversation that has a call without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from .message import Part, UIMessage
from .tool_calls import is_tool_part

__all__ = ["INTERRUPTED", "NOT_ANSWERED", "STOPPED", "repair_calls", "unknown_after"]

INTERRUPTED: Final = "The call was interrupted; its result is unknown."
NOT_ANSWERED: Final = "No answer was given."
STOPPED: Final = "The call was stopped before it began."

_UNFINISHED: Final = frozenset({"input-streaming", "input-available", "approval-requested", "approval-responded"})


def unknown_after(seconds: float) -> str:
    """Return the error text for the model of a call that timed out but could not be stopped."""
    return f"The call timed out after {seconds:g} s; its result is unknown."


def repair_calls(
    messages: Sequence[UIMessage | Mapping[str, Any]], *, answerable: Callable[[Part], bool]
) -> list[UIMessage]:
    """Return the messages with an error for every unfinished call that can no longer be answered.

    `answerable` is called with each call that has no outcome; if it returns False, the call becomes a failed call with
    an error text for the model. Denied calls are not changed: the denial is their result. Messages without such calls
    are returned as they are, the others as copies. Raises BadMessage for a value that is not a message.
    """
    return [_repaired(message, answerable) for message in messages]


def _repaired(given: UIMessage | Mapping[str, Any], answerable: Callable[[Part], bool]) -> UIMessage:
    message = given if isinstance(given, UIMessage) else UIMessage.from_dict(given)
    is_lost = [_is_unfinished(part) and not answerable(part) for part in message.parts]
    if not any(is_lost):
        return message
    parts = [_failed(part) if lost else part for part, lost in zip(message.parts, is_lost, strict=True)]
    return msgspec.structs.replace(message, parts=parts)


def _is_unfinished(part: Part) -> bool:
    if not is_tool_part(part) or part.get("state") not in _UNFINISHED:
        return False
    return (part.get("approval") or {}).get("approved") is not False


def _failed(part: Part) -> Part:
    is_unanswered = part["state"] == "approval-requested"
    failed = {**part, "state": "output-error", "errorText": NOT_ANSWERED if is_unanswered else INTERRUPTED}
    for name in ("output", "preliminary", "rawInput", "inputEncoding"):
        failed.pop(name, None)
    if (failed.get("approval") or {}).get("approved") is not True:
        # The AI SDK allows an approval on a finished call only if it was granted.
        failed.pop("approval", None)
    if failed.get("input") is None:
        # Providers require an object; an incomplete input that cannot be parsed becomes an empty one.
        failed["input"] = {}
    return failed
