"""Messages as clients send them: which of them can be read, and which may be stored.

Clients send the whole conversation with each question, and most of it is stored already. Reading is therefore cheap
and lenient; `check_client_message` is applied only to messages that are about to be stored.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..errors import BadMessage
from ..ids import cut_id, id_problem
from .message import ROLES, UIMessage
from .part_shapes import checked_part

__all__ = ["RESERVED", "check_client_message", "read_client_messages"]

JsonObject = dict[str, Any]

RESERVED: Final = frozenset({"data-pydantic-ai"})
"""Data parts that only our own code writes: what they carry goes to a model as it is, and is not a user's to say."""


def read_client_messages(raw: list[Any]) -> tuple[list[JsonObject], str | None]:
    """Return the messages with an id, a role and a list of parts, and what is wrong with the last one if it has not.

    Older ones that cannot be read are left out: the server's own copy of them is what counts. The parts are not looked
    at and stay as they came.
    """
    messages: list[JsonObject] = []
    problem: str | None = None
    for each in raw:
        problem = None
        try:
            messages.append(_plain(each) or _read(each))
        except BadMessage as exc:
            problem = str(exc)
    return messages, problem


def check_client_message(message: JsonObject) -> None:
    """Check a user message that a client wants to have stored.

    Its parts are text, files and data, in the shapes of the AI SDK. Fields that the AI SDK does not know are allowed:
    they are stored as they came, so that the client's next copy is equal to the stored one.

    Raises:
        BadMessage: its id is too long, or a part is not one of those; the text says which.
    """
    name = message["id"]
    if (problem := id_problem(name, "its id")) is not None:
        raise BadMessage(f"unable to take message {cut_id(name)!r}; {problem}")
    for position, part in enumerate(message["parts"]):
        if (problem := _part_problem(part)) is not None:
            raise BadMessage(f"unable to take message {name!r}; {problem} (part {position})")


def _part_problem(part: Any) -> str | None:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return "a part must be an object with a type"
    if kind not in ("text", "file") and not kind.startswith("data-"):
        return f"a user message may have text, file and data parts, and no part of type {cut_id(kind)!r}"
    if kind in RESERVED:
        return f"a part of type {kind!r} is the server's to write"
    try:
        # A page whose data is `undefined` sends none.
        checked_part({"data": None, **part} if kind.startswith("data-") else part)
    except (msgspec.ValidationError, RecursionError) as exc:
        return f"a part of type {cut_id(kind)!r} does not fit the AI SDK's schema: {exc}"
    return None


def _plain(raw: Any) -> JsonObject | None:
    """Return a message that has what it must have and nothing else, as `UIMessage` would; None for any other.

    Of a long conversation, making a `UIMessage` of everything that was said before is most of what a question costs.
    """
    if type(raw) is not dict or len(raw) != 3:
        return None
    message, role, parts = raw.get("id"), raw.get("role"), raw.get("parts")
    if type(message) is not str or not message or type(role) is not str or role not in ROLES or type(parts) is not list:
        return None
    return {"id": message, "role": role, "parts": parts}


def _read(raw: Any) -> JsonObject:
    read = UIMessage.from_dict(raw).to_dict()
    given = raw.get("parts")
    return {**read, "parts": given} if isinstance(given, list) else read
