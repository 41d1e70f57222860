"""What clients send with a question, read leniently where that is safe and refused with a sentence where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw
from starlette.requests import ClientDisconnect, Request

from ..errors import BadInput, BadMessage, TooManyQueued
from ..events import ABSENT, to_raw
from ..ids import MessageId
from ..messages.client_messages import read_client_messages
from ..wire.parse import read_trigger, tools_problem
from .memory_budget import MemoryBudget

__all__ = ["PostedQuestion", "TooLarge", "read_json", "read_number", "read_question"]

JsonObject = dict[str, Any]

# The AI SDK's own fields; everything else is the application's, and becomes the turn's body.
_OWN_FIELDS = frozenset({"id", "messages", "trigger", "messageId", "clientTools"})


class TooLarge:
    """Stands for a body beyond the limit; there is nothing else to say about it."""


TOO_LARGE = TooLarge()


@dataclass(frozen=True, slots=True)
class PostedQuestion:
    """A request for a turn, as the AI SDK's HTTP transport sends it."""

    messages: Sequence[JsonObject]
    trigger: str
    body: Raw
    client_tools: Raw
    message_id: MessageId | None = None
    """The message that the client goes on with, if it names one."""


def read_number(said: str) -> int | None:
    """Return a whole number of at most 18 digits, as a header or a query has it; None for anything else."""
    return int(said) if said.isascii() and said.isdigit() and len(said) < 19 else None


async def read_json(request: Request, limit: int, budget: MemoryBudget[asyncio.Timeout]) -> JsonObject | TooLarge:
    """Return the request's JSON object, an empty one for an empty body.

    Raises:
        BadInput: it is something else.
        TooManyQueued: it is the largest of too many bodies that are not whole.
    """
    said = read_number(request.headers.get("content-length", ""))
    if said is not None and said > limit:
        return TOO_LARGE
    body = await _whole(request, limit, budget)
    if body is None:
        return TOO_LARGE
    if not body:
        return {}
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise BadInput(f"unable to read the body; it is not JSON ({exc})") from exc
    if not isinstance(decoded, dict):
        raise BadInput("unable to read the body; it must be a JSON object")
    return decoded


async def _whole(request: Request, limit: int, budget: MemoryBudget[asyncio.Timeout]) -> bytes | None:
    """Read the body; None when it is larger than the limit."""
    pieces: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as waiting:
            try:
                async for piece in request.stream():
                    size += len(piece)
                    if size > limit:
                        return None
                    pieces.append(piece)
                    largest = budget.hold(waiting, size)
                    if largest is not None and not largest.expired():  # else it is on its way out
                        largest.reschedule(loop.time())
                return b"".join(pieces)
            finally:
                budget.release(waiting)
    except TimeoutError:
        raise TooManyQueued("unable to take the body; too many others are being sent. Try again.") from None
    except ClientDisconnect:
        raise BadInput("unable to read the body; the client is gone") from None


def read_question(body: JsonObject) -> PostedQuestion:
    """Take a question from its body: `messages`, `trigger`, `clientTools`, and the application's own fields.

    Raises:
        BadInput: there is no usable list of messages.
    """
    given = body.get("messages")
    if not isinstance(given, list):
        raise BadMessage('unable to answer; the body needs "messages", a list of UIMessages')
    messages, problem = read_client_messages(given)
    if problem is not None:
        raise BadMessage(problem)
    tools = body.get("clientTools")
    if (problem := tools_problem(tools)) is not None:
        raise BadInput(f"unable to answer; {problem}")
    rest = {name: value for name, value in body.items() if name not in _OWN_FIELDS}
    return PostedQuestion(
        messages=messages,
        trigger=read_trigger(body.get("trigger")),
        body=to_raw(rest or None),
        client_tools=to_raw(tools or None) if isinstance(tools, list) else ABSENT,
        message_id=MessageId(named) if isinstance(named := body.get("messageId"), str) else None,
    )
