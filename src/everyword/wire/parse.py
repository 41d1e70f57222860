"""Client frames, read leniently: unknown keys are ignored, and what cannot be used is answered and not dropped.

`parse` never raises: whatever a peer sends becomes one of the frames below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import BadMessage
from ..events import absent, to_raw
from ..ids import CallId, RequestId
from ..messages.calls import Approval, CallAnswer, ToolError, ToolResult
from ..messages.message import ROLES, UIMessage

__all__ = ["AnswerCall", "BadRequest", "CallMethod", "CancelTurn", "ChatRequest", "ClearChat", "ClientFrame", "Other"]
__all__ += ["ResumeAck", "ResumeRequest", "SetState", "SyncMessages", "parse"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """`cf_agent_use_chat_request`: the client's whole list, and what it sent along."""

    id: RequestId
    messages: list[JsonObject]
    trigger: str = "submit-message"
    client_tools: Raw = field(default_factory=absent)
    body: Raw = field(default_factory=absent)


@dataclass(frozen=True, slots=True)
class BadRequest:
    """A chat request that cannot be used; `text` says why, and is sent back under its id if it has one."""

    id: RequestId | None
    text: str


@dataclass(frozen=True, slots=True)
class CancelTurn:
    id: RequestId


@dataclass(frozen=True, slots=True)
class ClearChat:
    pass


@dataclass(frozen=True, slots=True)
class SyncMessages:
    """`cf_agent_chat_messages` from a client: its `setMessages`."""

    messages: list[JsonObject]


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    probe: str | None


@dataclass(frozen=True, slots=True)
class ResumeAck:
    id: RequestId


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """`cf_agent_tool_result` or `cf_agent_tool_approval`."""

    call: CallId
    answer: CallAnswer
    auto_continue: bool
    client_tools: Raw = field(default_factory=absent)


@dataclass(frozen=True, slots=True)
class SetState:
    state: Raw


@dataclass(frozen=True, slots=True)
class CallMethod:
    """`rpc`: a callable of the agent."""

    id: str
    method: str
    args: list[Any]


@dataclass(frozen=True, slots=True)
class Other:
    """Not of this protocol: the agent's own `on_message` gets it as it came."""

    text: str


ClientFrame = (
    ChatRequest
    | BadRequest
    | CancelTurn
    | ClearChat
    | SyncMessages
    | ResumeRequest
    | ResumeAck
    | AnswerCall
    | SetState
    | CallMethod
    | Other
)


def parse(text: str) -> ClientFrame:
    """Read one text frame of a client."""
    try:
        frame = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Other(text)
    if not isinstance(frame, dict):
        return Other(text)
    read = _READERS.get(_string(frame.get("type")))
    found = read(frame) if read is not None else None
    return found if found is not None else Other(text)


def _request(frame: JsonObject) -> ClientFrame | None:
    request, init = frame.get("id"), frame.get("init")
    if not isinstance(request, str) or not request:
        return BadRequest(None, "unable to read the request; it has no id")
    if not isinstance(init, dict) or init.get("method", "POST") != "POST":
        return None
    try:
        body = msgspec.json.decode(_string(init.get("body")))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        return BadRequest(RequestId(request), f"unable to read the request's body; {exc}")
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return BadRequest(RequestId(request), "unable to read the request's body; `messages` is not a list")
    messages, problem = _messages(body.pop("messages"))
    if problem is not None:
        return BadRequest(RequestId(request), problem)
    trigger, tools = body.pop("trigger", None), body.pop("clientTools", None)
    return ChatRequest(
        RequestId(request),
        messages,
        trigger if isinstance(trigger, str) else "submit-message",
        _tools(tools),
        to_raw(body or None),
    )


def _messages(raw: list[Any]) -> tuple[list[JsonObject], str | None]:
    """Return the usable messages, and what is wrong with the last one if it is not usable.

    Older ones that cannot be read are left out: the server's own copy of them is what counts.
    """
    messages: list[JsonObject] = []
    problem: str | None = None
    for each in raw:
        problem = None
        try:
            messages.append(_plain(each) or UIMessage.from_dict(each).to_dict())
        except BadMessage as exc:
            problem = str(exc)
    return messages, problem


def _plain(raw: Any) -> JsonObject | None:
    """Return a message that has what it must have and nothing else as `UIMessage` would; None for any other.

    Clients send the whole conversation with each question: of a long one, making a `UIMessage` of everything that was
    said before is most of what the question costs.
    """
    if type(raw) is not dict or len(raw) != 3:
        return None
    message, role, parts = raw.get("id"), raw.get("role"), raw.get("parts")
    if type(message) is not str or not message or type(role) is not str or role not in ROLES or type(parts) is not list:
        return None
    for part in parts:
        if type(part) is not dict or type(part.get("type")) is not str:
            return None
    return {"id": message, "role": role, "parts": parts}


def _tools(tools: Any) -> Raw:
    """Return the client's tools, those of them that have a name; ABSENT when there are none."""
    usable = [t for t in tools if isinstance(t, dict) and _string(t.get("name"))] if isinstance(tools, list) else []
    return to_raw(usable or None)


def _cancel(frame: JsonObject) -> ClientFrame | None:
    request = frame.get("id")
    return CancelTurn(RequestId(request)) if isinstance(request, str) else None


def _clear(frame: JsonObject) -> ClientFrame:
    return ClearChat()


def _sync(frame: JsonObject) -> ClientFrame | None:
    raw = frame.get("messages")
    if not isinstance(raw, list):
        return None
    return SyncMessages(_messages(raw)[0])


def _resume(frame: JsonObject) -> ClientFrame:
    probe = frame.get("probeId")
    return ResumeRequest(probe if isinstance(probe, str) else None)


def _ack(frame: JsonObject) -> ClientFrame | None:
    request = frame.get("id")
    return ResumeAck(RequestId(request)) if isinstance(request, str) else None


def _tool_result(frame: JsonObject) -> ClientFrame | None:
    call = frame.get("toolCallId")
    if not isinstance(call, str):
        return None
    answer: CallAnswer = ToolResult(frame.get("output"))
    if frame.get("state") == "output-error":
        answer = ToolError(_string(frame.get("errorText")) or "Tool execution denied by user")
    return AnswerCall(CallId(call), answer, frame.get("autoContinue") is True, _tools(frame.get("clientTools")))


def _tool_approval(frame: JsonObject) -> ClientFrame | None:
    call, approved = frame.get("toolCallId"), frame.get("approved")
    if not isinstance(call, str) or not isinstance(approved, bool):
        return None
    answer = Approval(approved, _string(frame.get("reason")) or None)
    return AnswerCall(CallId(call), answer, frame.get("autoContinue") is True)


def _state(frame: JsonObject) -> ClientFrame | None:
    return SetState(Raw(msgspec.json.encode(frame["state"]))) if "state" in frame else None


def _rpc(frame: JsonObject) -> ClientFrame | None:
    call, method, args = frame.get("id"), frame.get("method"), frame.get("args")
    if not isinstance(call, str) or not isinstance(method, str) or not isinstance(args, list):
        return None
    return CallMethod(call, method, args)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


_READERS: dict[str, Callable[[JsonObject], ClientFrame | None]] = {
    "cf_agent_use_chat_request": _request,
    "cf_agent_chat_request_cancel": _cancel,
    "cf_agent_chat_clear": _clear,
    "cf_agent_chat_messages": _sync,
    "cf_agent_stream_resume_request": _resume,
    "cf_agent_stream_resume_ack": _ack,
    "cf_agent_tool_result": _tool_result,
    "cf_agent_tool_approval": _tool_approval,
    "cf_agent_state": _state,
    "rpc": _rpc,
}
