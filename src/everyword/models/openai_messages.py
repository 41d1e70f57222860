"""Convert messages to the input of OpenAI's APIs: chat completions and responses."""

from __future__ import annotations

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

__all__ = ["to_openai", "to_openai_responses"]

Item = dict[str, Any]
_AUDIO: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def to_openai(messages: Iterable[UIMessage | Mapping[str, Any]], *, reasoning: bool = False) -> list[Item]:
    """Return the `messages` of a chat completion.

    Each step becomes an assistant message followed by the results of its calls; a call without a result gets one that
    says so. With `reasoning`, text that a server streamed as `reasoning_content` is sent back under that name: OpenAI
    itself does not accept it, but some compatible servers require it after a tool call. Calls that a provider ran
    itself cannot be expressed and are left out.
    """
    out: list[Item] = []
    for message in read_messages(messages):
        if message.role == "assistant":
            for step in split_steps(message):
                out += _chat_step(step, reasoning=reasoning)
        elif message.role == "system":
            out.append({"role": "system", "content": message.text})
        else:
            content = [piece for part in message.parts for piece in _chat_content(part)]
            if all(piece["type"] == "text" for piece in content):
                out.append({"role": "user", "content": "".join(piece["text"] for piece in content)})
            else:
                out.append({"role": "user", "content": content})
    return out


def _chat_step(step: list[Part], *, reasoning: bool) -> Iterator[Item]:
    message: Item = {"role": "assistant"}
    texts = [part for part in step if part["type"] == "text" and part.get("text")]
    plain = "".join(part["text"] for part in texts if not provider_metadata(part, "openai").get("refusal"))
    refusal = "".join(part["text"] for part in texts if provider_metadata(part, "openai").get("refusal"))
    calls = [call for call in map(read_tool_call, step) if call is not None and not call.is_provider_executed]
    if plain or not refusal:
        message["content"] = plain or None
    if refusal:
        message["refusal"] = refusal
    for part in step if reasoning else []:
        field = provider_metadata(part, "openai").get("field")
        if part["type"] == "reasoning" and field:
            message[field] = message.get(field, "") + part.get("text", "")
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in calls]
    if plain or refusal or calls:
        yield message
    for call in calls:
        yield {"role": "tool", "tool_call_id": call.id, "content": output_text(call.result.value)}


def _chat_call(call: ToolCall) -> Item:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.raw_input}}


def _chat_content(part: Part) -> Iterator[Item]:
    if part["type"] == "text" and part.get("text"):
        yield {"type": "text", "text": part["text"]}
    if part["type"] != "file":
        return
    url, kind = str(part.get("url", "")), str(part.get("mediaType", "")).partition(";")[0].strip().lower()
    data_url = read_data_url(url)
    if kind.startswith("image/"):
        yield {"type": "image_url", "image_url": {"url": url}}
    elif kind in _AUDIO and data_url is not None:
        yield {"type": "input_audio", "input_audio": {"data": data_url.base64, "format": _AUDIO[kind]}}
    elif data_url is None:
        yield {"type": "text", "text": _named_file(part)}
    elif kind == "application/pdf":
        yield {"type": "file", "file": {"filename": part.get("filename") or "file", "file_data": url}}
    else:
        # The API takes no other file, and with it refuses every later question of the conversation.
        yield {"type": "text", "text": _text_of_file(part, kind, data_url.base64)}


def _text_of_file(part: Part, kind: str, content: str) -> str:
    named = named_file(str(part.get("filename") or ""), kind)
    text = decode_text(content) if is_text(kind) else None
    if text is None:
        return f"[The {named} cannot be shown; the model does not read it.]"
    return f"\n[The {named}:]\n{text}\n[The end of the file.]\n"


def _named_file(part: Part) -> str:
    """Return a text for the model in place of a file that the provider cannot fetch."""
    return f"[file {part.get('filename') or ''} {part.get('mediaType')}: {part.get('url')}]".replace("  ", " ")


# -- responses -------------------------------------------------------------------------------------


def to_openai_responses(messages: Iterable[UIMessage | Mapping[str, Any]]) -> list[Item]:
    """Return the `input` of a response: every item of earlier answers with its original id and content.

    Reasoning is sent back only if the provider gave it an id; with `store=False`, request
    `include=["reasoning.encrypted_content"]`. A call without a result gets one that says so.
    """
    out: list[Item] = []
    for message in read_messages(messages):
        if message.role == "assistant":
            images = {
                provider_metadata(part, "openai").get("itemId"): part
                for part in message.parts
                if part["type"] == "file"
            }
            for step in split_steps(message):
                out += _items(step, images)
        elif message.role == "system":
            out.append({"role": "system", "content": message.text})
        else:
            content = [piece for part in message.parts for piece in _input_content(part)]
            out.append({"role": "user", "content": content})
    return out


def _items(step: list[Part], images: Mapping[Any, Part]) -> list[Item]:
    out: list[Item] = []
    results: list[Item] = []
    for part in step:
        call = read_tool_call(part)
        item = provider_metadata(part, "openai", "callProviderMetadata").get("item")
        if call is not None and item:
            pair = _caller_run_items(call, item)
            out += pair[:1]
            results += pair[1:]
        elif call is not None and call.is_provider_executed:
            out += _executed_item(part, images)
        elif call is not None:
            call_item, output_item = _call_items(call)
            out.append(call_item)
            results.append(output_item)
        elif part["type"] == "reasoning":
            _add_reasoning(out, part)
        elif part["type"] == "text" and part.get("text"):
            _add_text(out, part)
    return out + results


def _call_items(call: ToolCall) -> tuple[Item, Item]:
    own = provider_metadata(call.part, "openai", "callProviderMetadata")
    name = {"id": own["itemId"]} if own.get("itemId") else {}
    output = output_text(call.result.value)
    if own.get("kind") == "custom_tool_call":
        text = output_text(call.part.get("input") or "")
        call_item = {"type": "custom_tool_call", "call_id": call.id, "name": call.tool, "input": text, **name}
        return call_item, {"type": "custom_tool_call_output", "call_id": call.id, "output": output}
    call_item = {"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": call.raw_input, **name}
    return call_item, {"type": "function_call_output", "call_id": call.id, "output": output}


def _caller_run_items(call: ToolCall, item: Item) -> list[Item]:
    """Return a call of a provider's tool that the caller runs, and its result; nothing if it has no usable result."""
    kind, result = item["type"], call.result
    if kind == "mcp_approval_request":
        approval = call.part.get("approval") or {}
        approve = approval.get("approved") is True
        return [item, {"type": "mcp_approval_response", "approval_request_id": call.id, "approve": approve}]
    if kind == "apply_patch_call":
        status = "completed" if result.outcome == "success" else "failed"
        output = output_text(result.value)
        return [item, {"type": f"{kind}_output", "call_id": call.id, "status": status, "output": output}]
    if result.outcome != "success":
        return []
    name = "id" if kind == "local_shell_call" else "call_id"
    return [item, {"type": f"{kind}_output", name: call.id, "output": result.value}]


def _executed_item(part: Part, images: Mapping[Any, Part]) -> Iterator[Item]:
    item = provider_metadata(part, "openai", "resultProviderMetadata").get("item")
    if not isinstance(item, dict):
        return
    image = images.get(item.get("id"))
    if item.get("type") == "image_generation_call":
        data_url = read_data_url(str(image.get("url"))) if image is not None else None
        item = {**item, "result": data_url.base64 if data_url is not None else None}
    yield item


def _add_reasoning(out: list[Item], part: Part) -> None:
    own = provider_metadata(part, "openai")
    if not own.get("itemId"):
        return
    item = out[-1] if out and out[-1].get("type") == "reasoning" and out[-1]["id"] == own["itemId"] else None
    if item is None:
        item = {"type": "reasoning", "id": own["itemId"], "summary": []}
        out.append(item)
    if own.get("reasoningEncryptedContent"):
        item["encrypted_content"] = own["reasoningEncryptedContent"]
    if part.get("text") and own.get("reasoningText"):
        item.setdefault("content", []).append({"type": "reasoning_text", "text": part["text"]})
    elif part.get("text"):
        item["summary"].append({"type": "summary_text", "text": part["text"]})


def _add_text(out: list[Item], part: Part) -> None:
    own = provider_metadata(part, "openai")
    if own.get("refusal"):
        content = {"type": "refusal", "refusal": part["text"]}
    else:
        content = {"type": "output_text", "text": part["text"], "annotations": own.get("annotations") or []}
    name = own.get("itemId")
    if name and out and out[-1].get("type") == "message" and out[-1].get("id") == name:
        out[-1]["content"].append(content)
        return
    item: Item = {"type": "message", "role": "assistant", "content": [content], "status": "completed"}
    out.append(item | ({"id": name} if name else {}))


def _input_content(part: Part) -> Iterator[Item]:
    if part["type"] == "text" and part.get("text"):
        yield {"type": "input_text", "text": part["text"]}
    if part["type"] != "file":
        return
    url, kind = str(part.get("url", "")), str(part.get("mediaType", ""))
    if kind.startswith("image/"):
        yield {"type": "input_image", "image_url": url, "detail": "auto"}
    elif url.startswith("data:"):
        yield {"type": "input_file", "filename": part.get("filename") or "file", "file_data": url}
    else:
        yield {"type": "input_file", "file_url": url}
