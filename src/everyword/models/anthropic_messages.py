"""Convert messages to the input of Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..messages.message import Part, UIMessage
from .message_reader import (
    ToolCall,
    decode_text,
    is_text,
    named_file,
    output_text,
    provider_metadata,
    read_data_url,
    read_messages,
    read_tool_call,
    split_steps,
)

__all__ = ["to_anthropic"]

Block = dict[str, Any]
_READ: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "application/pdf"})
"""The types whose bytes the API takes."""

_NOT_IN_AN_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")


def to_anthropic(messages: Iterable[UIMessage | Mapping[str, Any]]) -> dict[str, Any]:
    """Return `messages`, and `system` if there is system text: `client.messages.create(**to_anthropic(messages), …)`.

    Thinking is sent back with its signature, and left out without one. Results of other providers' own tools are left
    out. Every call gets a result: a call without one gets a text that says so.
    """
    system: list[str] = []
    out: list[dict[str, Any]] = []
    taken = read_messages(messages)
    for position, message in enumerate(taken):
        if message.role == "system":
            system += [message.text] if message.text else []
        elif message.role == "user":
            _add(out, "user", [block for part in message.parts for block in _user_blocks(part)])
        else:
            is_last = position == len(taken) - 1
            for step in split_steps(message):
                blocks, results = _step_blocks(step, message.parts[-1] if is_last else None)
                _add(out, "assistant", blocks)
                _add(out, "user", results)
    return ({"system": "\n\n".join(system)} if system else {}) | {"messages": out}


def _add(out: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    """Append blocks, to the last message if it has the same role: roles must alternate."""
    if not blocks:
        return
    if out and out[-1]["role"] == role:
        out[-1]["content"] += blocks
    else:
        out.append({"role": role, "content": blocks})


def _step_blocks(step: list[Part], last: Part | None) -> tuple[list[Block], list[Block]]:
    blocks: list[Block] = []
    results: list[Block] = []
    for part in step:
        call = read_tool_call(part)
        if call is not None and call.is_provider_executed:
            blocks += _executed_blocks(call, is_last=part is last)
        elif call is not None:
            blocks.append({"type": "tool_use", "id": _id(call.id), "name": call.tool, "input": call.input})
            results.append(_result(call))
        elif part["type"] == "reasoning":
            blocks += _thinking(part)
        elif part["type"] == "text" and part.get("text"):
            block = {"type": "text", "text": part["text"]}
            citations = provider_metadata(part, "anthropic").get("citations")
            blocks.append(block | ({"citations": citations} if citations else {}))
    return blocks, results


def _result(call: ToolCall) -> Block:
    block = {"type": "tool_result", "tool_use_id": _id(call.id), "content": output_text(call.result.value)}
    return block | ({"is_error": True} if call.result.outcome != "success" else {})


def _executed_blocks(call: ToolCall, *, is_last: bool) -> Iterator[Block]:
    """Yield a call that the provider ran and its result. Without a result, yield it only if the provider must go on."""
    metadata = provider_metadata(call.part, "anthropic", "callProviderMetadata")
    block = provider_metadata(call.part, "anthropic", "resultProviderMetadata").get("block")
    if not metadata.get("type") or not (block or is_last):
        return
    yield {**metadata, "id": call.id, "name": call.tool, "input": call.input}
    if block:
        yield block


def _thinking(part: Part) -> Iterator[Block]:
    own = provider_metadata(part, "anthropic")
    if own.get("redactedData"):
        yield {"type": "redacted_thinking", "data": own["redactedData"]}
    elif own.get("signature"):
        yield {"type": "thinking", "thinking": part.get("text", ""), "signature": own["signature"]}


def _user_blocks(part: Part) -> Iterator[Block]:
    if part["type"] == "text" and part.get("text"):
        yield {"type": "text", "text": part["text"]}
    if part["type"] != "file":
        return
    url, kind = str(part.get("url", "")), str(part.get("mediaType", ""))
    data_url = read_data_url(url)
    if data_url is None:
        source: Block = {"type": "url", "url": url}
    else:
        kind = (kind or data_url.media_type).partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
        source = {"type": "base64", "media_type": kind, "data": data_url.base64}
    name = str(part.get("filename") or "")
    if data_url is not None and is_text(kind):
        text = decode_text(data_url.base64)
        if text is None:
            return
        source = {"type": "text", "media_type": "text/plain", "data": text}
    elif data_url is not None and kind not in _READ:
        # The API refuses it, and with it every later question of the conversation.
        yield {"type": "text", "text": f"[The {named_file(name, kind)} cannot be shown; the model does not read it.]"}
        return
    elif kind.startswith("image/"):
        yield {"type": "image", "source": source}
        return
    yield {"type": "document", "source": source, **({"title": name} if name else {})}


def _id(call: str) -> str:
    return _NOT_IN_AN_ID.sub("_", call)
