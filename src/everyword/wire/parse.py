"""Client frames, read leniently: unknown keys are ignored, and what cannot be used is answered and not dropped.

`parse` never raises: whatever a peer sends becomes one of the frames below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from ..events import absent, to_raw
from ..ids import CallId, RequestId, cut_id, id_problem
from ..messages.client_messages import read_client_messages
from ..messages.tool_calls import CallAnswer, ErrorAnswer, OutputAnswer, approval_of_page

__all__ = ["AnswerCall", "BadCall", "BadRequest", "CallMethod", "CancelTurn", "ChatRequest", "ClearChat"]
__all__ += ["ClientFrame", "HandshakeFrame", "Other", "ResumeAck", "ResumeRequest", "SetState", "SyncMessages", "parse"]
__all__ += ["read_trigger", "tools_problem"]

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
    is_too_large: bool = False
    """True for messages that are larger than the limit: the page must not send them again."""


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
    is_whole: bool = True
    """False if the list had something in it that cannot be read as a message."""


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
class BadCall:
    """An `rpc` that cannot be used; `text` says why, and is sent back under its id, which may have been cut."""

    id: str
    text: str


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
    | BadCall
    | Other
)


HandshakeFrame = ResumeRequest | ResumeAck
"""A frame of the resume handshake: answered by the writer of the socket, in order with what it writes."""


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


def _request(frame: JsonObject) -> ClientFrame:
    request, init = frame.get("id"), frame.get("init")
    if not isinstance(request, str) or not request:
        return BadRequest(None, "unable to read the request; it has no id")
    if (problem := id_problem(request, "its id")) is not None:
        return BadRequest(RequestId(cut_id(request)), f"unable to take the request; {problem}")
    if not isinstance(init, dict) or init.get("method", "POST") != "POST":
        why = "its method is not POST" if isinstance(init, dict) else "it has no `init`"
        return BadRequest(RequestId(request), f'unable to read the request; {why}. Send `init` with method "POST".')
    try:
        body = msgspec.json.decode(_string(init.get("body")))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        return BadRequest(RequestId(request), f"unable to read the request's body; {exc}")
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return BadRequest(RequestId(request), "unable to read the request's body; `messages` is not a list")
    messages, problem = read_client_messages(body.pop("messages"))
    if problem is not None:
        return BadRequest(RequestId(request), problem)
    trigger, tools = body.pop("trigger", None), body.pop("clientTools", None)
    if (problem := tools_problem(tools)) is not None:
        return BadRequest(RequestId(request), f"unable to take the request; {problem}")
    return ChatRequest(RequestId(request), messages, read_trigger(trigger), _tools(tools), to_raw(body or None))


def read_trigger(trigger: Any) -> str:
    """Return what a client says that it asked with: nothing depends on it, so what cannot be used is the default."""
    is_usable = isinstance(trigger, str) and id_problem(trigger, "it") is None
    return trigger if is_usable else "submit-message"


def tools_problem(tools: Any) -> str | None:
    """Return what is wrong with the names of a client's tools, as the second half of an error text; None if nothing."""
    named = (_string(tool.get("name")) for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()
    return next((problem for name in named if (problem := id_problem(name, "the name of a client's tool"))), None)


def _tools(tools: Any) -> Raw:
    """Return the client's tools, those of them that have a usable name; ABSENT when there are none."""
    found = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    usable = [tool for tool in found if _string(tool.get("name")) and tools_problem([tool]) is None]
    return to_raw(usable or None)


def _cancel(frame: JsonObject) -> ClientFrame | None:
    request = _usable_id(frame)
    return CancelTurn(RequestId(request)) if request is not None else None


def _clear(frame: JsonObject) -> ClientFrame:
    return ClearChat()


def _sync(frame: JsonObject) -> ClientFrame | None:
    raw = frame.get("messages")
    if not isinstance(raw, list):
        return None
    messages, _ = read_client_messages(raw)
    return SyncMessages(messages, is_whole=len(messages) == len(raw))


def _resume(frame: JsonObject) -> ClientFrame:
    return ResumeRequest(_usable_id(frame, "probeId"))


def _ack(frame: JsonObject) -> ClientFrame | None:
    request = _usable_id(frame)
    return ResumeAck(RequestId(request)) if request is not None else None


def _tool_result(frame: JsonObject) -> ClientFrame | None:
    call = frame.get("toolCallId")
    if not isinstance(call, str):
        return None
    answer: CallAnswer = OutputAnswer(frame.get("output"))
    if frame.get("state") == "output-error":
        answer = ErrorAnswer(_string(frame.get("errorText")) or "Tool execution denied by user")
    return AnswerCall(CallId(call), answer, frame.get("autoContinue") is True, _tools(frame.get("clientTools")))


def _tool_approval(frame: JsonObject) -> ClientFrame | None:
    call, approved = frame.get("toolCallId"), frame.get("approved")
    if not isinstance(call, str) or not isinstance(approved, bool):
        return None
    answer = approval_of_page(approved, frame.get("reason"))
    return AnswerCall(CallId(call), answer, frame.get("autoContinue") is True)


def _state(frame: JsonObject) -> ClientFrame | None:
    return SetState(Raw(msgspec.json.encode(frame["state"]))) if "state" in frame else None


def _rpc(frame: JsonObject) -> ClientFrame | None:
    call, method, args = frame.get("id"), frame.get("method"), frame.get("args")
    if not isinstance(call, str) or not isinstance(method, str) or not isinstance(args, list):
        return None
    problem = id_problem(call, "its id") or id_problem(method, "the method's name")
    if problem is not None:
        return BadCall(cut_id(call), f"unable to make the call; {problem}")
    return CallMethod(call, method, args)


def _usable_id(frame: JsonObject, name: str = "id") -> str | None:
    found = frame.get(name)
    return found if isinstance(found, str) and id_problem(found, "it") is None else None


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
