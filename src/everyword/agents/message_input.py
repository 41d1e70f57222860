"""Messages and request ids that callers pass, in the form that is stored."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from ..ids import RequestId
from ..messages.message import UIMessage

__all__ = ["Messages", "request_id_or_new", "to_json_messages", "to_stored_messages"]

Messages = Sequence[UIMessage | dict[str, Any]]


def request_id_or_new(given: str | None) -> RequestId:
    """Return the request id that was given, or a new one."""
    return RequestId(given if given is not None else secrets.token_urlsafe(16))


def to_stored_messages(messages: Messages | str, request: RequestId) -> list[dict[str, Any]]:
    """Return messages as they are stored; plain text becomes one message of the user, with an id from the request."""
    if isinstance(messages, str):
        messages = [UIMessage(f"user_{request}", "user", [{"type": "text", "text": messages}])]
    return to_json_messages(messages)


def to_json_messages(messages: Messages) -> list[dict[str, Any]]:
    """Return messages as JSON objects."""
    return [(m if isinstance(m, UIMessage) else UIMessage.from_dict(m)).to_dict() for m in messages]
