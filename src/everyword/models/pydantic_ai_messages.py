"""Convert messages to and from the message history of Pydantic AI."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..messages.message import Part, UIMessage
from ..messages.tool_calls import find_call
from .message_reader import ToolCall, output_text, provider_metadata, read_messages, read_tool_call, split_steps
from .provider_stream import import_pydantic_ai
from .pydantic_ai_parts import (
    DATA_PART_TYPE,
    KEPT_ATTRIBUTES,
    METADATA_KEY,
    from_data_part,
    part_metadata,
    result_metadata,
    to_data_part,
    to_json_value,
)
from .step_writer import read_input

if TYPE_CHECKING:
    from pydantic_ai import DeferredToolResults
    from pydantic_ai.messages import ModelMessage

__all__ = ["deferred_results", "from_pydantic_ai_messages", "to_pydantic_ai"]

_URLS: Final = (("image/", "ImageUrl"), ("audio/", "AudioUrl"), ("video/", "VideoUrl"), ("", "DocumentUrl"))
_NOT_FOR_EVERY_PART: Final = {"text": ("signature",), "reasoning": (), "call": ("signature",), "file": ("signature",)}

log = logging.getLogger("everyword.models")


def to_pydantic_ai(messages: Iterable[UIMessage | Mapping[str, Any]]) -> list[ModelMessage]:
    """Return a `message_history`: one ModelResponse per step, followed by the returns of its calls.

    A call without a result gets an interrupted one, with one exception: approved calls of the last message stay open,
    so that the run executes them. Pass `deferred_results(messages)` to the run.
    """
    kinds = import_pydantic_ai("pydantic_ai.messages")
    taken = read_messages(messages)
    out: list[ModelMessage] = []
    for position, message in enumerate(taken):
        if message.role == "assistant":
            is_last = position == len(taken) - 1
            for step in split_steps(message):
                out += _step_messages(step, kinds, is_last=is_last)
        elif message.role == "system":
            out.append(kinds.ModelRequest(parts=[kinds.SystemPromptPart(message.text)]))
        else:
            content = [piece for part in message.parts for piece in _user_content(part, kinds)]
            is_plain = len(content) == 1 and isinstance(content[0], str)
            out.append(kinds.ModelRequest(parts=[kinds.UserPromptPart(content[0] if is_plain else content)]))
    return out


def deferred_results(messages: Iterable[UIMessage | Mapping[str, Any]]) -> DeferredToolResults | None:
    """Return the approvals of calls in the last message that have not run yet, or None if there are none."""
    taken = read_messages(messages)
    if not taken or taken[-1].role != "assistant":
        return None
    approved = {part["toolCallId"]: True for part in taken[-1].parts if _is_approved(part)}
    if not approved:
        return None
    results: DeferredToolResults = import_pydantic_ai("pydantic_ai").DeferredToolResults(approvals=approved)
    return results


def _is_approved(part: Part) -> bool:
    return part.get("state") == "approval-responded" and (part.get("approval") or {}).get("approved") is True


def _step_messages(step: list[Part], kinds: Any, *, is_last: bool) -> Iterator[Any]:
    response_parts: list[Any] = []
    request_parts: list[Any] = []
    for part in step:
        call = read_tool_call(part)
        if call is not None:
            response_parts += _call_parts(call, kinds)
            if not call.is_provider_executed and not (is_last and _is_approved(part)):
                request_parts.append(_return(call, kinds.ToolReturnPart))
        elif part["type"] == DATA_PART_TYPE:
            kind, parts = _carried(part)
            (response_parts if kind == "response" else request_parts).extend(parts)
        elif part["type"] == "text" and (part.get("text") or provider_metadata(part, METADATA_KEY)):
            response_parts.append(kinds.TextPart(part.get("text", ""), **_own(part, "text")))
        elif part["type"] == "reasoning":
            response_parts.append(kinds.ThinkingPart(part.get("text", ""), **_own(part, "reasoning")))
        elif part["type"] == "file" and part["url"].startswith("data:"):
            response_parts += [kinds.FilePart(content, **_own(part, "file")) for content in _binary(part, kinds)]
    if response_parts:
        yield kinds.ModelResponse(parts=response_parts)
    if request_parts:
        yield kinds.ModelRequest(parts=request_parts)


def _own(part: Part, family: str, field: str = "providerMetadata") -> dict[str, Any]:
    """Return Pydantic AI's metadata on a part; for a part from another adapter, the metadata that it can use."""
    own = dict(provider_metadata(part, METADATA_KEY, field))
    if not own and family == "reasoning" and provider_metadata(part, "anthropic").get("signature"):
        own = {"signature": provider_metadata(part, "anthropic")["signature"], "provider_name": "anthropic"}
    excluded = _NOT_FOR_EVERY_PART[family]
    return {name: value for name, value in own.items() if name in KEPT_ATTRIBUTES and name not in excluded}


def _call_parts(call: ToolCall, kinds: Any) -> Iterator[Any]:
    own = _own(call.part, "call", "callProviderMetadata")
    kind = kinds.NativeToolCallPart if call.is_provider_executed else kinds.ToolCallPart
    if call.is_provider_executed and not call.part.get("resultProviderMetadata") and call.result.outcome != "success":
        return  # a call that the provider ran and that has no result is useless
    yield kind(call.tool, _args(call.part), call.id, **own)
    if call.is_provider_executed:
        kept = provider_metadata(call.part, METADATA_KEY, "resultProviderMetadata")
        more = {name: kept[name] for name in ("provider_name", "provider_details") if name in kept}
        yield _return(call, kinds.NativeToolReturnPart, **more)


def _args(part: Part) -> Any:
    raw = part.get("rawInput")
    if part.get("state") == "output-error" and isinstance(raw, str):
        try:
            return read_input(raw)
        except ValueError:
            return raw
    return part.get("input") if isinstance(part.get("input"), dict) else {}


def _return(call: ToolCall, kind: Any, **more: Any) -> Any:
    kept = provider_metadata(call.part, METADATA_KEY, "resultProviderMetadata").get("outcome")
    outcome = kept if kept and call.result.outcome == "failed" else call.result.outcome
    return kind(call.tool, call.result.value, call.id, outcome=outcome, **more)


def _user_content(part: Part, kinds: Any) -> Iterator[Any]:
    if part["type"] == "text" and part.get("text"):
        yield part["text"]
    elif part["type"] == DATA_PART_TYPE:
        for prompt in _carried(part)[1]:
            if isinstance(prompt, kinds.UserPromptPart):
                yield from prompt.content if not isinstance(prompt.content, str) else [prompt.content]
    elif part["type"] == "file":
        url, media_type = part["url"], part["mediaType"]
        if url.startswith("data:"):
            yield from _binary(part, kinds)
        else:
            name = next(name for start, name in _URLS if media_type.startswith(start))
            yield getattr(kinds, name)(url, media_type=media_type or None)


def _carried(part: Part) -> tuple[str, list[Any]]:
    try:
        return from_data_part(part.get("data"))
    except ValueError as exc:
        log.warning("skipped a stored %s part that cannot be read: %s", DATA_PART_TYPE, exc)
        return "response", []


def _binary(part: Part, kinds: Any) -> list[Any]:
    try:
        return [kinds.BinaryContent.from_data_uri(part["url"])]
    except ValueError as exc:
        log.warning("skipped a stored file part whose data URL cannot be read: %s", exc)
        return []


# -- back ------------------------------------------------------------------------------------------


def from_pydantic_ai_messages(
    messages: Iterable[ModelMessage], *, message_id: Callable[[int], str] = "message-{}".format
) -> list[UIMessage]:
    """Return the history as UIMessages: one assistant message per answer, with a `step-start` per model response.

    `message_id` returns the id of the nth message. A call without a return stays open. Instructions, timestamps and
    the token counts of single responses have no field in a UIMessage and are left out.
    """
    out: list[UIMessage] = []
    for message in messages:
        if message.kind == "response":
            answer = _answer(out, message_id)
            answer.parts.append({"type": "step-start"})
            for part in message.parts:
                _add_response_part(answer, part)
            continue
        for request in message.parts:
            if request.part_kind == "system-prompt":
                out.append(UIMessage(message_id(len(out)), "system", [_text(request.content)]))
            elif request.part_kind == "user-prompt":
                out.append(UIMessage(message_id(len(out)), "user", list(_user_parts(request))))
            else:
                _add_tool_return(_answer(out, message_id), request)
    return out


def _answer(out: list[UIMessage], message_id: Callable[[int], str]) -> UIMessage:
    if not out or out[-1].role != "assistant":
        out.append(UIMessage(message_id(len(out)), "assistant", []))
    return out[-1]


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _user_parts(prompt: Any) -> Iterator[Part]:
    kinds = import_pydantic_ai("pydantic_ai.messages")
    for item in [prompt.content] if isinstance(prompt.content, str) else prompt.content:
        if isinstance(item, str):
            yield _text(item)
        elif isinstance(item, kinds.BinaryContent):
            yield {"type": "file", "url": item.data_uri, "mediaType": item.media_type}
        elif isinstance(item, kinds.FileUrl) and not item.vendor_metadata:
            yield {"type": "file", "url": item.url, "mediaType": item.media_type}
        else:
            yield to_data_part(kinds.UserPromptPart([item]), is_response=False)


def _add_response_part(answer: UIMessage, part: Any) -> None:
    metadata = part_metadata(part)
    match part.part_kind:
        case "text" | "thinking":
            kind = "text" if part.part_kind == "text" else "reasoning"
            shown: Part = {"type": kind, "text": part.content, "state": "done"}
            answer.parts.append(shown | ({"providerMetadata": metadata} if metadata else {}))
        case "tool-call" | "builtin-tool-call":
            shown = {"type": f"tool-{part.tool_name}", "toolCallId": part.tool_call_id, "state": "input-available"}
            answer.parts.append(shown | _input(part.args))
            if part.part_kind == "builtin-tool-call":
                answer.parts[-1]["providerExecuted"] = True
            if metadata:
                answer.parts[-1]["callProviderMetadata"] = metadata
        case "builtin-tool-return":
            _add_tool_return(answer, part)
        case "file":
            shown = {"type": "file", "url": part.content.data_uri, "mediaType": part.content.media_type}
            answer.parts.append(shown | ({"providerMetadata": metadata} if metadata else {}))
        case _:
            answer.parts.append(to_data_part(part, is_response=True))


def _input(args: Any) -> dict[str, Any]:
    if not isinstance(args, str):
        return {"input": to_json_value(args or {})}
    try:
        return {"input": read_input(args)}
    except ValueError:
        return {"rawInput": args}


def _add_tool_return(answer: UIMessage, part: Any) -> None:
    call = find_call(answer, part.tool_call_id) if part.part_kind.endswith("tool-return") else None
    if call is None:
        answer.parts.append(to_data_part(part, is_response=False))
        return
    metadata = result_metadata(part)
    if part.outcome == "success":
        call |= {"state": "output-available", "output": to_json_value(part.content)}
    elif part.outcome == "denied":
        approval = {"id": part.tool_call_id, "approved": False, "reason": output_text(to_json_value(part.content))}
        call |= {"state": "output-denied", "approval": approval}
        metadata = None
    else:
        call |= {"state": "output-error", "errorText": output_text(to_json_value(part.content))}
    if metadata:
        call["resultProviderMetadata"] = metadata
