"""Encode a message as chunks that fold to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import BadChunk
from ..messages.chunks import check_chunk
from ..messages.fold import MessageFold
from ..messages.message import Chunk, Part, UIMessage
from ..messages.partial_json import UNREADABLE, parse_partial_json
from ..messages.readable_parts import is_readable
from ..messages.tool_calls import approval_request, is_settled, is_tool_part, tool_name

__all__ = ["encode_message", "encode_parts", "fold_from_message"]


def encode_message(message: UIMessage, *, is_replay: bool = False, is_finished: bool = True) -> list[Chunk]:
    """Return the chunks of a whole message, from `start` to `finish`; without `finish` if `is_finished` is False.

    The chunks fold to the message. With `is_replay`, every client can fold them, and they lack two things: answered
    approvals (R-2), so that those calls have no approval, and parts that clients before ai 7 reject.
    """
    chunks = encode_parts(message, open_parts={}, is_replay=is_replay)
    return [*chunks, {"type": "finish"}] if is_finished else chunks


def encode_parts(message: UIMessage, *, open_parts: Mapping[int, str], is_replay: bool) -> list[Chunk]:
    """Return the chunks of a message that may still be streaming. `open_parts` maps indexes of open parts to their ids.

    Parts that no chunk can build, and unreadable parts, are left out.
    """
    start: Chunk = {"type": "start", "messageId": message.id}
    if message.metadata is not None:
        start["messageMetadata"] = message.metadata
    taken = set(open_parts.values())
    chunks = [start]
    for position, part in enumerate(message.parts):
        kind = part["type"]
        if not is_readable(part):
            continue
        if kind in ("text", "reasoning"):
            own = part.get("id") if isinstance(part.get("id"), str) else None
            name = open_parts.get(position) or own or _fresh(position, taken)
            chunks += _encode_text(part, name, is_open=position in open_parts)
        elif is_tool_part(part):
            chunks += _encode_call(part, is_replay=is_replay)
        elif kind == "step-start":
            chunks.append({"type": "start-step"})
        elif kind.startswith("data-") or kind in _SAME_AS_CHUNK:
            chunks += _encode_discrete(part, is_replay=is_replay)
    return chunks


def fold_from_message(message: UIMessage, open_parts: Mapping[int, str]) -> MessageFold:
    """Return a fold that further chunks of a message can be applied to.

    `open_parts` maps the positions of the text and reasoning parts that still grow to their ids. Other parts in state
    `streaming` are open too, under ids that no chunk uses.
    """
    fold = MessageFold(message.id)
    for chunk in encode_parts(message, open_parts=open_parts, is_replay=False):
        fold.apply(chunk)
    return fold


_SAME_AS_CHUNK: Final = frozenset(
    {"file", "source-url", "source-document", "reasoning-file", "custom", "steering-message"}
)


def _encode_discrete(part: Part, *, is_replay: bool) -> list[Chunk]:
    if not is_replay:
        return [dict(part)]
    try:
        return [check_chunk(part)]
    except BadChunk:
        return []


def _fresh(position: int, taken: set[str]) -> str:
    name = f"part-{position}"
    while name in taken:
        name += "'"
    return name


def _encode_text(part: Part, name: str, *, is_open: bool) -> list[Chunk]:
    kind, text = part["type"], part.get("text")
    start: Chunk = {"type": f"{kind}-start", "id": name}
    if part.get("providerMetadata") is not None:
        start["providerMetadata"] = part["providerMetadata"]
    chunks = [start]
    if text:
        chunks.append({"type": f"{kind}-delta", "id": name, "delta": text})
    if not is_open and part.get("state") != "streaming":
        end: Chunk = {"type": f"{kind}-end", "id": name}
        if part.get("citations") is not None:
            end["citations"] = part["citations"]
        chunks.append(end)
    return chunks


def _encode_call(part: Part, *, is_replay: bool) -> list[Chunk]:
    chunks = _encode_input(part)
    if "id" in (part.get("approval") or {}) and not (is_replay and is_settled(part)):
        chunks += _encode_approval(part)
    output = _encode_output(part)
    return chunks if output is None else [*chunks, output]


def _encode_input(part: Part) -> list[Chunk]:
    """Return the chunks of a call's input: complete, or as far as it was streamed."""
    call: Chunk = {"toolCallId": part["toolCallId"], "toolName": tool_name(part)}
    for name in ("title", "toolMetadata", "providerExecuted"):
        if part.get(name) is not None:
            call[name] = part[name]
    if part["type"] == "dynamic-tool":
        call["dynamic"] = True
    if part.get("callProviderMetadata") is not None:
        call["providerMetadata"] = part["callProviderMetadata"]
    if "rawInput" not in part and "input" in part:
        return [{"type": "tool-input-available", **call, "input": part["input"]}]
    encoding = _input_encoding(part)
    start: Chunk = {"type": "tool-input-start", **call}
    if encoding is not None:
        start["inputEncoding"] = encoding
    if not _was_streamed(part):
        return [start]
    delta: Chunk = {"type": "tool-input-delta", "toolCallId": call["toolCallId"]}
    return [start, {**delta, "inputTextDelta": part["rawInput"]}]


def _input_encoding(part: Part) -> str | None:
    """Return the input encoding of the call's start chunk. A failed call no longer has it, so it is derived."""
    encoding: str | None = part.get("inputEncoding")
    if encoding is not None or part.get("state") != "output-error" or "input" not in part:
        return encoding
    raw = part["rawInput"]
    is_text = isinstance(raw, str) and raw == part["input"] and parse_partial_json(raw) != raw
    return "text" if is_text else None


def _was_streamed(part: Part) -> bool:
    """Return True if the raw input came as deltas, False if it was left by a `tool-input-error`."""
    raw = part.get("rawInput")
    if not isinstance(raw, str):
        return False
    return part.get("state") != "output-error" or "input" in part or parse_partial_json(raw) is UNREADABLE


def _encode_approval(part: Part) -> list[Chunk]:
    approval, request = part["approval"], approval_request(part)
    if "approved" not in approval:
        return [request]
    response: Chunk = {
        "type": "tool-approval-response",
        "approvalId": approval["id"],
        "approved": approval["approved"],
    }
    if approval.get("reason") is not None:
        response["reason"] = approval["reason"]
    return [request, response]


def _encode_output(part: Part) -> Chunk | None:
    call_id, state = part["toolCallId"], part.get("state")
    chunk: Chunk
    if state == "output-available":
        chunk = {"type": "tool-output-available", "toolCallId": call_id, "output": part.get("output")}
        if part.get("preliminary") is not None:
            chunk["preliminary"] = part["preliminary"]
    elif state == "output-error" and "rawInput" in part and not _was_streamed(part):
        chunk = {"type": "tool-input-error", "toolCallId": call_id, "toolName": tool_name(part)}
        chunk |= {"input": part["rawInput"], "errorText": part.get("errorText") or ""}
    elif state == "output-error":
        chunk = {"type": "tool-output-error", "toolCallId": call_id, "errorText": part.get("errorText") or ""}
    elif state == "output-denied":
        return {"type": "tool-output-denied", "toolCallId": call_id}
    else:
        return None
    if part.get("resultProviderMetadata") is not None:
        chunk["providerMetadata"] = part["resultProviderMetadata"]
    return chunk
