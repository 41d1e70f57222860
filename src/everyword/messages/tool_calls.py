"""Tool parts of a message: find a call, tell its state, apply an answer to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, assert_never

import msgspec

from .message import Chunk, Part, UIMessage

__all__ = ["ApprovalAnswer", "CallAnswer", "ErrorAnswer", "OutputAnswer", "answer_chunks", "answered_part"]
__all__ += ["LONGEST_REASON", "approval_of_page", "approval_request", "own_approval_id"]
__all__ += ["find_call", "find_tool_part", "is_mid_batch", "is_open", "is_settled", "is_tool_part"]
__all__ += ["last_step", "open_calls", "settle", "tool_name", "tool_parts"]


class OutputAnswer(msgspec.Struct, frozen=True, tag="result"):
    """The output of a tool call, as a JSON value."""

    output: Any = None


class ErrorAnswer(msgspec.Struct, frozen=True, tag="error"):
    """The error of a tool call. Clients and the model may read the text."""

    error_text: str


class ApprovalAnswer(msgspec.Struct, frozen=True, tag="approval"):
    """A person's decision on a tool call that requires approval."""

    approved: bool
    reason: str | None = None


CallAnswer = OutputAnswer | ErrorAnswer | ApprovalAnswer

LONGEST_REASON: Final = 1000
"""Characters of the reason of an approval. Of a longer one that a page sends, the rest is left out."""


def approval_of_page(approved: bool, reason: object) -> ApprovalAnswer:
    """Return a decision as a chat page sends it; without the reason if it is no text."""
    return ApprovalAnswer(approved, (reason[:LONGEST_REASON] if isinstance(reason, str) else None) or None)


# Field of the approval request chunk → field of the part's `approval`.
_REQUEST_FIELDS: Final = {
    "approvalDescriptor": "descriptor",
    "inputSchemaInput": "inputSchemaInput",
    "signature": "signature",
    "reason": "requestReason",
    "isAutomatic": "isAutomatic",
}

_SETTLED: Final = frozenset({"output-available", "output-error", "output-denied", "approval-responded"})
_TAKES_RESULT: Final = frozenset({"input-available", "approval-requested", "approval-responded"})
_TAKES_APPROVAL: Final = frozenset({"input-available", "approval-requested"})


def is_tool_part(part: Part) -> bool:
    """Return True if the part is a tool call, static or dynamic.

    A part whose id, state, tool name or approval has the wrong type is not a tool call: it cannot be used.
    """
    kind: str = part["type"]
    is_dynamic = kind == "dynamic-tool"
    if not is_dynamic and not kind.startswith("tool-"):
        return False
    if not isinstance(part.get("toolCallId"), str) or not isinstance(part.get("state", ""), str):
        return False
    if is_dynamic and not isinstance(part.get("toolName"), str):
        return False
    return part.get("approval") is None or _is_approval(part["approval"])


def _is_approval(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("id", ""), str):
        return False
    return isinstance(value.get("approved", False), bool) and isinstance(value.get("reason", ""), str)


def tool_name(part: Part) -> str:
    """Return the tool name of a tool part."""
    kind: str = part["type"]
    return str(part.get("toolName", "")) if kind == "dynamic-tool" else kind.removeprefix("tool-")


def tool_parts(message: UIMessage) -> Iterator[Part]:
    """Yield the tool parts of the message in order."""
    return (part for part in message.parts if is_tool_part(part))


def last_step(parts: Sequence[Part]) -> int:
    """Return the index of the first part of the current step: the one after the last `step-start`."""
    for index in range(len(parts) - 1, -1, -1):
        if parts[index]["type"] == "step-start":
            return index + 1
    return 0


def find_tool_part(parts: Sequence[Part], call_id: str, step: int) -> int | None:
    """Return the index of the tool part that an answer to `call_id` applies to, or None.

    A provider may use one id in several steps. Like the stock client, look in the current step first (from index
    `step`), then take the newest part before it.
    """
    for index in range(step, len(parts)):
        if parts[index].get("toolCallId") == call_id and is_tool_part(parts[index]):
            return index
    for index in range(step - 1, -1, -1):
        if parts[index].get("toolCallId") == call_id and is_tool_part(parts[index]):
            return index
    return None


def find_call(message: UIMessage, call_id: str) -> Part | None:
    """Return the tool part that an answer to `call_id` applies to, or None."""
    index = find_tool_part(message.parts, call_id, last_step(message.parts))
    return None if index is None else message.parts[index]


def is_open(part: Part) -> bool:
    """Return True if a tool part waits for an approval or for the output of a client tool."""
    state = part.get("state")
    return state == "approval-requested" or (state == "input-available" and not part.get("providerExecuted"))


def is_settled(part: Part) -> bool:
    """Return True if a tool part has an output, an error, a denial or an approval."""
    return part.get("state") in _SETTLED


def open_calls(message: UIMessage) -> list[Part]:
    """Return the tool parts that wait for an answer (see `is_open`)."""
    return [part for part in tool_parts(message) if is_open(part)]


def is_mid_batch(message: UIMessage) -> bool:
    """Return True if the last step has both settled and open calls, so that the model must not be called yet."""
    calls = [part for part in message.parts[last_step(message.parts) :] if is_tool_part(part)]
    return any(map(is_settled, calls)) and any(map(is_open, calls))


def answered_part(part: Part, answer: CallAnswer) -> Part | None:
    """Return a copy of the tool part with the answer applied, or None if its state does not accept the answer.

    The first answer wins: a settled part accepts none, except that an approved call accepts its output or error.
    """
    state, approval = part.get("state"), part.get("approval") or {}
    match answer:
        case OutputAnswer(output):
            if state not in _TAKES_RESULT or approval.get("approved") is False:
                return None
            return _without({**part, "state": "output-available", "output": output}, "errorText", "rawInput")
        case ErrorAnswer(error_text):
            if state not in _TAKES_RESULT or approval.get("approved") is False:
                return None
            # Like the stock client: a static call keeps its raw input beside the error, a dynamic call does not.
            raw_input = ["rawInput"] if part["type"] == "dynamic-tool" else []
            return _without({**part, "state": "output-error", "errorText": error_text}, "output", *raw_input)
        case ApprovalAnswer(approved, reason):
            if state not in _TAKES_APPROVAL:
                return None
            answered = {**approval, "id": approval.get("id") or part["toolCallId"], "approved": approved}
            if reason is not None:
                answered["reason"] = reason
            return {**part, "state": "approval-responded" if approved else "output-denied", "approval": answered}
        case _:
            assert_never(answer)


def settle(message: UIMessage, call_id: str, answer: CallAnswer) -> UIMessage | None:
    """Return a copy of the message with the call answered, or None if the call is unknown or already settled."""
    index = find_tool_part(message.parts, call_id, last_step(message.parts))
    answered = None if index is None else answered_part(message.parts[index], answer)
    if index is None or answered is None:
        return None
    parts = [*message.parts[:index], answered, *message.parts[index + 1 :]]
    return msgspec.structs.replace(message, parts=parts)


def answer_chunks(call_id: str, answer: CallAnswer) -> list[Chunk]:
    """Return the chunks that apply the answer when folded. An approval has none: clients before ai 7 reject them."""
    match answer:
        case OutputAnswer(output):
            return [{"type": "tool-output-available", "toolCallId": call_id, "output": output}]
        case ErrorAnswer(error_text):
            return [{"type": "tool-output-error", "toolCallId": call_id, "errorText": error_text}]
        case ApprovalAnswer(approved):
            return [] if approved else [{"type": "tool-output-denied", "toolCallId": call_id}]
        case _:
            assert_never(answer)


def own_approval_id(call_id: str) -> str:
    """Return the approval id for a call that runs on this server, so that only this server may settle it."""
    return f"approve-{call_id}"


def approval_request(part: Part) -> Chunk:
    """Return the `tool-approval-request` chunk of a tool part that has an `approval`."""
    request: Chunk = {"type": "tool-approval-request", "approvalId": part["approval"]["id"]}
    request["toolCallId"] = part["toolCallId"]
    for name, source in _REQUEST_FIELDS.items():
        if source in part["approval"]:
            request[name] = part["approval"][source]
    return request


def _without(part: Part, *names: str) -> Part:
    for name in ("preliminary", "inputEncoding", *names):
        part.pop(name, None)
    return part
