"""Refusals: their texts, and how a client gets them as an HTTP response, a frame, or the reason of a closed socket.

Texts that depend on a value are where the value is: rate limits in `rate_limited_receive` and `client_commands`, open
connections in `reader_limit`, local requests and origins in `access_policy`. Every text says what failed and why.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import PlainTextResponse, Response
from starlette.websockets import WebSocket

from ..events import Outcome
from ..wire import frames
from ..wire.parse import BadRequest, CallMethod, ChatRequest, SetState, parse
from .incoming_frames import ENDS, id_in

__all__ = ["BUSY", "EXPIRED", "FAILED", "NOT_ALLOWED", "NOT_LOCAL", "NO_ATTACHMENTS", "SESSION_ENDED", "TRY_AGAIN"]
__all__ += ["UNCHECKED", "UNKNOWN_CLIENT", "UNREAD", "UNRECORDED", "refusal_frame", "refusal_response", "refuse_socket"]

NOT_ALLOWED: Final = "unable to accept the request; you are not allowed to use this agent"
UNKNOWN_CLIENT: Final = "unable to accept the request; the server does not know you. Sign in and try again."
EXPIRED: Final = "unable to continue; your session has expired. Sign in again."
SESSION_ENDED: Final = "unable to continue; your session has ended. Connect again."
UNCHECKED: Final = "unable to accept the request; the server could not check your permissions. Try again."
NOT_LOCAL: Final = (
    "unable to accept the request; it {why}, and without `authorize` this server serves this machine only. "
    "To serve others, pass Everyword(..., authorize=...)."
)
BUSY: Final = "unable to use the log right now; nothing was written. Try again in a moment."
NO_ATTACHMENTS: Final = "unable to store or read files right now; nothing was written. Try again in a moment."
UNRECORDED: Final = "unable to accept the request; the server could not record it. Try again in a moment."
FAILED: Final = "unable to answer; the agent failed"
UNREAD: Final = "unable to send more; the client does not read fast enough"
TRY_AGAIN: Final = "unable to serve the socket right now; connect again in a moment"

SHORT: Final = 64 * 1024
"""A frame of up to so many characters is parsed to find out how to refuse it; of a longer one, only the ends."""

LONGEST_REASON: Final = 120
"""Bytes of a close reason; a close frame has room for 123."""

_TYPE: Final = re.compile(r'"type"\s*:\s*"(cf_agent_state|rpc|cf_agent_use_chat_request)"')


def refusal_response(status: int, text: str, **headers: str) -> Response:
    """Return an HTTP response with a text. Plain text: the AI SDK shows the body of a failed request as it is."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return PlainTextResponse(f"{text}\n", status, named)


async def refuse_socket(websocket: WebSocket, code: int, reason: str) -> None:
    """Accept a socket and close it. A browser hides why an upgrade failed, and the stock client would try for ever."""
    await websocket.accept()
    await websocket.close(code, reason.encode()[:LONGEST_REASON].decode(errors="ignore"))


def refusal_frame(received: str, text: str) -> bytes | None:
    """Return the frame that refuses a received frame; None when the protocol has no answer to it."""
    if len(received) > SHORT:
        return _refusal_of_long(received, text)
    match parse(received):
        case SetState():
            return frames.state_error(text)
        case CallMethod() as call:
            return frames.rpc_error(call.id, text)
        case ChatRequest() | BadRequest() as asked if asked.id is not None:
            return frames.terminal(asked.id, Outcome.ERROR, error=text)
        case _:
            return None


def _refusal_of_long(received: str, text: str) -> bytes | None:
    ends = (received[:ENDS], received[-ENDS:])
    kinds, request = [found[1] for found in map(_TYPE.search, ends) if found is not None], id_in(received)
    if "cf_agent_state" in kinds:
        return frames.state_error(text)
    if not kinds or request is None:
        return None
    if kinds[0] == "rpc":
        return frames.rpc_error(request, text)
    return frames.terminal(request, Outcome.ERROR, error=text)
