"""Messages that clients send: read them leniently, and check those that are about to be stored.

A client sends the whole conversation with each request, and most of it is already stored. Reading is therefore cheap
and lenient; `check_client_message` runs only for messages that will be stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ..errors import BadMessage
from ..ids import cut_id, id_problem
from .client_copies import part_key, still_streams
from .message import ROLES, UIMessage, is_part
from .part_schemas import checked_part

__all__ = ["RESERVED", "check_client_message", "checked_answer", "read_client_messages"]

JsonObject = dict[str, Any]

RESERVED: Final = frozenset({"data-pydantic-ai"})
"""Data parts that only the server may write: their content goes to a model unchanged, so clients must not send them."""

_SETTLED: Final = ("output-available", "output-error", "output-denied")


def read_client_messages(raw: list[Any]) -> tuple[list[JsonObject], str | None]:
    """Return the messages that have an id, a role and a list of parts, and the problem of the last one if it has not.

    Older messages that cannot be read are left out: the server uses its stored copies. Parts are neither checked nor
    changed.
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
    """Check a user message that a client wants to store.

    Its parts must be text, file and data parts that match the AI SDK's schema. Fields that the AI SDK does not know
    are allowed and stored unchanged, so that the client's next copy is equal to the stored message.

    Raises:
        BadMessage: the id is too long, the metadata is not an object and so cannot hold the server's fields (R-37), or
            a part is not allowed; the text says which.
    """
    _check_id(message["id"])
    if not isinstance(message.get("metadata"), dict | None):
        raise BadMessage(f"unable to take message {message['id']!r}; its metadata must be an object")
    for position, part in enumerate(message["parts"]):
        if (problem := _type_problem(part) or _question_problem(part) or _shape_problem(part)) is not None:
            raise BadMessage(f"unable to take message {message['id']!r}; {problem} (part {position})")


def checked_answer(message: JsonObject, stored: JsonObject | None) -> JsonObject:
    """Check an assistant message that a trusted client adds, or that replaces `stored`; return the message to store.

    It may hold every part of the AI SDK except two kinds: a tool call without its output, which could be answered or
    run with an input that the client chose, and reserved data parts (`RESERVED`). Copies of such parts that are in
    `stored` are allowed; the stored part is kept.

    Raises:
        BadMessage: the id is too long, a part still streams, or a part is not allowed; the text says which.
    """
    name = message["id"]
    _check_id(name)
    if still_streams(message):
        raise BadMessage(f"unable to take message {name!r}; a part of it still streams")
    try:
        own = _by_key((stored or {}).get("parts", ()))
        parts = [_checked_answer_part(part, own) for part in message["parts"]]
    except RecursionError:
        raise BadMessage(f"unable to take message {name!r}; it is nested too deeply") from None
    except BadMessage as exc:
        raise BadMessage(f"unable to take message {name!r}; {exc}") from exc
    return {**message, "parts": parts}


def _by_key(parts: Iterable[JsonObject]) -> dict[bytes, list[JsonObject]]:
    found: dict[bytes, list[JsonObject]] = {}
    for part in parts:
        if is_part(part):
            found.setdefault(part_key(part), []).append(part)
    return found


def _checked_answer_part(part: Any, own: dict[bytes, list[JsonObject]]) -> Any:
    """Return the stored part if this part is a copy of one, else the part itself if a trusted client may write it.

    Each stored part is used once: a second copy of an open call could be answered, and so run, a second time.
    """
    if is_part(part) and (copies := own.get(part_key(part))):
        return copies.pop()
    if (problem := _type_problem(part) or _answer_problem(part) or _shape_problem(part)) is not None:
        raise BadMessage(problem)
    return part


def _check_id(name: str) -> None:
    if (problem := id_problem(name, "its id")) is not None:
        raise BadMessage(f"unable to take message {cut_id(name)!r}; {problem}")


def _type_problem(part: Any) -> str | None:
    return None if is_part(part) else "a part must be an object with a type"


def _question_problem(part: JsonObject) -> str | None:
    kind: str = part["type"]
    if kind not in ("text", "file") and not kind.startswith("data-"):
        return f"a user message may have text, file and data parts, and no part of type {cut_id(kind)!r}"
    return None


def _answer_problem(part: JsonObject) -> str | None:
    kind: str = part["type"]
    if kind != "dynamic-tool" and not kind.startswith("tool-"):
        return None
    if part.get("state") not in _SETTLED or part.get("preliminary"):
        return "only the server may write a call without its output"
    call = part.get("toolCallId")
    return id_problem(call, "the id of a call") if isinstance(call, str) else None


def _shape_problem(part: JsonObject) -> str | None:
    kind: str = part["type"]
    if kind in RESERVED:
        return f"only the server may write a part of type {kind!r}"
    try:
        # A page whose data is `undefined` sends no `data` field.
        checked_part({"data": None, **part} if kind.startswith("data-") else part)
    except (msgspec.ValidationError, RecursionError) as exc:
        return f"a part of type {cut_id(kind)!r} does not fit the AI SDK's schema: {exc}"
    return None


def _plain(raw: Any) -> JsonObject | None:
    """Return a message that has exactly an id, a role and parts; None for any other.

    Equal to `_read`, without building a `UIMessage`: in a long conversation, building one for each earlier message is
    most of the cost of a request.
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
