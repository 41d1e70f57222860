"""Received messages of a socket, before they are parsed: their text, or a refusal if they are too large."""

from __future__ import annotations

import re
from typing import Final

from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from ..ids import LONGEST_ID, RequestId
from ..wire.parse import BadRequest

__all__ = ["CUT", "ENDS", "id_in", "refusal_of", "text_of"]

CUT: Final = "everyword.cut"
"""An extension of ASGI: a received message that is too large for the server has its size here, and its ends as text."""

ENDS: Final = 4096
"""Characters of both ends of a long message in which its id and its type are looked for."""

_WITH_MESSAGES: Final = ("cf_agent_use_chat_request", "cf_agent_chat_messages")

_ID: Final = re.compile(rf'"id"\s*:\s*"([^"\\]{{1,{LONGEST_ID}}})"')


def text_of(message: Message) -> str:
    """Return a received message as text; one that is not text reads as a frame that is not of the protocol.

    Raises:
        WebSocketDisconnect: the client is gone.
    """
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    text = message.get("text")
    return text if isinstance(text, str) else (message.get("bytes") or b"").decode(errors="replace")


def refusal_of(message: Message, text: str, limit: int) -> BadRequest | None:
    """Refuse a frame that is too large, under its id, without parsing it; the socket stays."""
    if CUT not in message and (len(text) <= limit // 4 or len(text.encode()) <= limit):
        return None
    why = f"unable to take the message; it is larger than {limit / (1024 * 1024):g} MiB"
    return BadRequest(id_in(text), why, is_too_large=_has_messages(text))


def _has_messages(text: str) -> bool:
    """Return whether a long message contains the messages of a page."""
    return any(kind in end for kind in _WITH_MESSAGES for end in (text[:ENDS], text[-ENDS:]))


def id_in(text: str) -> RequestId | None:
    """Return the id of a message that is too long to be parsed, if one of its ends has it."""
    found = _ID.search(text, 0, ENDS) or _ID.search(text, max(len(text) - ENDS, 0))
    return RequestId(found.group(1)) if found is not None else None
