"""Convert streams of OpenAI's Responses API to chunks. A response is a list of items that may be streamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..messages.message import Chunk
from .errors import classify_error_report, model_error, stream_dropped
from .provider_stream import usage_counts
from .step_writer import StepWriter

__all__ = ["ResponsesDecoder"]

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_INCOMPLETE: Final = {"max_output_tokens": "length", "content_filter": "content-filter"}

# Item types of calls that the caller runs → the field with the arguments.
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}

# Item types of calls that the provider runs itself → the tool name and the fields of the item that are the input.
_EXECUTED: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "web_search_call": ("web_search", ("action",)),
    "file_search_call": ("file_search", ("queries",)),
    "code_interpreter_call": ("code_interpreter", ("code", "container_id")),
    "image_generation_call": ("image_generation", ()),
    "mcp_list_tools": ("mcp_list_tools", ("server_label",)),
    "mcp_call": ("mcp", ("server_label", "name", "arguments")),
}

# Item types of the provider's tools that the caller runs or must approve → the same.
_CALLER_RUN: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "computer_call": ("computer_use", ("action", "pending_safety_checks")),
    "local_shell_call": ("local_shell", ("action",)),
    "shell_call": ("shell", ("action",)),
    "apply_patch_call": ("apply_patch", ("operation",)),
    "mcp_approval_request": ("mcp", ("server_label", "name", "arguments")),
}
_NOT_OUTPUT: Final = frozenset({"id", "type", "status", "result"})


class ResponsesDecoder:
    """Decodes the events of one response. Item ids are kept as provider metadata, so that they can be sent back."""

    def __init__(self) -> None:
        self._step = StepWriter()
        self._calls: dict[str, str] = {}  # item id → call id
        self._has_calls = False
        self._end: dict[str, Any] | None = None

    def feed(self, event: dict[str, Any]) -> list[Chunk]:
        kind = event.get("type", "")
        if kind == "error":
            raise model_error(classify_error_report(event.get("error") or event, provider="openai"))
        take = _TAKES.get(kind)
        if take is not None:
            take(self, event)
        elif kind in _ENDS:
            self._end = event["response"]
            if kind == "response.failed":
                raise model_error(classify_error_report(self._end.get("error"), provider="openai"))
        return self._step.take()

    def finish(self) -> list[Chunk]:
        if self._end is None:
            raise model_error(stream_dropped("openai"))
        why = (self._end.get("incomplete_details") or {}).get("reason")
        reason = "tool-calls" if self._has_calls else "stop"
        if self._end.get("status") == "incomplete" or why:
            reason = _INCOMPLETE.get(why or "", "other")
        metadata: dict[str, Any] = {}
        if self._end.get("model"):
            metadata["model"] = self._end["model"]
        if self._end.get("usage"):
            metadata["usage"] = _usage(self._end["usage"])
        metadata["rawFinishReason"] = why or self._end.get("status") or "completed"
        self._step.finish(reason, metadata)
        return self._step.take()

    def close(self) -> list[Chunk]:
        self._step.end()
        return self._step.take()

    # -- the response and its items ----------------------------------------------------------------

    def _created(self, event: dict[str, Any]) -> None:
        self._step.name = (event.get("response") or {}).get("id") or "response"
        self._step.begin()

    def _item_added(self, event: dict[str, Any]) -> None:
        item = event["item"]
        kind, name = item.get("type"), item.get("id") or f"{self._step.name}-item-{event.get('output_index', 0)}"
        if name in self._calls:
            return
        if kind in _CALLS:
            self._has_calls = True
            call = self._calls[name] = item.get("call_id") or name
            self._step.start_call(call, item.get("name") or "", metadata=_of_item(item))
            self._step.grow_call(call, item.get(_CALLS[kind]))
        elif kind in _EXECUTED:
            self._calls[name] = item.get("call_id") or name
            self._step.start_call(self._calls[name], _EXECUTED[kind][0], is_provider_executed=True)

    def _item_done(self, event: dict[str, Any]) -> None:
        item = event["item"]
        kind, name = item.get("type"), item.get("id") or f"{self._step.name}-item-{event.get('output_index', 0)}"
        if kind == "reasoning":
            self._reasoning_done(item, name)
        elif kind == "message":
            self._message_done(item, name)
        elif kind in _CALLS:
            self._item_added(event)
            self._call_done(item, self._calls[name])
        elif kind in _EXECUTED:
            self._item_added(event)
            self._executed(item, self._calls[name])
        elif kind in _CALLER_RUN:
            self._caller_run_call(item, item.get("call_id") or name)

    def _caller_run_call(self, item: dict[str, Any], call: str) -> None:
        tool, fields = _CALLER_RUN[item["type"]]
        is_approval = item["type"] == "mcp_approval_request"
        self._has_calls = True
        self._step.start_call(call, tool, is_provider_executed=is_approval)
        given = {field: item[field] for field in fields if item.get(field) is not None}
        self._step.end_call(call, given, {"openai": {"item": item}})
        if is_approval:
            self._step.add({"type": "tool-approval-request", "approvalId": call, "toolCallId": call})

    def _call_done(self, item: dict[str, Any], call: str) -> None:
        if item["type"] == "custom_tool_call":
            self._step.end_call(call, item.get("input") or "", _of_item(item))
            return
        if call in self._step.inputs and not self._step.inputs[call]:
            self._step.grow_call(call, item.get("arguments"))
        self._step.end_call(call, metadata=_of_item(item))

    def _executed(self, item: dict[str, Any], call: str) -> None:
        kept = {key: value for key, value in item.items() if key != "result"}
        fields = _EXECUTED[item["type"]][1]
        self._step.end_call(call, {field: item[field] for field in fields if item.get(field) is not None})
        metadata = {"openai": {"item": kept}}
        if item.get("error") or item.get("status") == "failed":
            self._step.fail_call(call, _error_text(item.get("error")), metadata)
            return
        output = {key: value for key, value in kept.items() if key not in _NOT_OUTPUT and key not in fields}
        self._step.output(call, {"status": item.get("status") or "completed", **output}, metadata)
        if item["type"] == "image_generation_call" and isinstance(item.get("result"), str):
            media_type = f"image/{item.get('output_format') or 'png'}"
            url = f"data:{media_type};base64,{item['result']}"
            pm = {"openai": {"itemId": item.get("id")}}
            self._step.add({"type": "file", "url": url, "mediaType": media_type, "providerMetadata": pm})
        for source in (item.get("action") or {}).get("sources") or []:
            self._step.source(source.get("url") or "", source.get("title"))

    # -- text --------------------------------------------------------------------------------------

    def _text(self, event: dict[str, Any]) -> None:
        self._grow_text(event, None)

    def _refusal(self, event: dict[str, Any]) -> None:
        self._grow_text(event, True)

    def _grow_text(self, event: dict[str, Any], refusal: bool | None) -> None:
        key = (event["item_id"], event.get("content_index", 0))
        metadata = {"itemId": event["item_id"]} | ({"refusal": True} if refusal else {})
        if event.get("delta"):
            self._step.open("text", key, {"openai": metadata})
            self._step.grow("text", key, event["delta"])

    def _annotation(self, event: dict[str, Any]) -> None:
        annotation = event.get("annotation") or {}
        match annotation.get("type"):
            case "url_citation":
                self._step.source(annotation.get("url") or "", annotation.get("title"))
            case "file_citation" | "container_file_citation" | "file_path":
                name, file = annotation.get("filename"), annotation.get("file_id") or ""
                self._step.document(name or file, media_type="text/plain", filename=name, key=file)

    def _message_done(self, item: dict[str, Any], name: str) -> None:
        for index, content in enumerate(item.get("content") or []):
            key = (name, index)
            text = content.get("text") if content.get("type") == "output_text" else content.get("refusal")
            if text and not self._step.is_growing(key):  # the server sent no deltas
                self._grow_text({"item_id": name, "content_index": index, "delta": text}, content["type"] == "refusal")
            metadata = {"itemId": name} | ({"refusal": True} if content.get("type") == "refusal" else {})
            if content.get("annotations"):
                metadata["annotations"] = content["annotations"]
                for annotation in content["annotations"]:
                    self._annotation({"annotation": annotation})
            self._step.close(key, {"openai": metadata})

    # -- reasoning ---------------------------------------------------------------------------------

    def _summary(self, event: dict[str, Any]) -> None:
        key = (event["item_id"], "summary", event.get("summary_index", 0))
        self._step.grow("reasoning", key, event.get("delta"))

    def _reasoning_text(self, event: dict[str, Any]) -> None:
        self._step.grow("reasoning", (event["item_id"], "text", event.get("content_index", 0)), event.get("delta"))

    def _reasoning_done(self, item: dict[str, Any], name: str) -> None:
        metadata: dict[str, Any] = {"itemId": name}
        if item.get("encrypted_content"):
            metadata["reasoningEncryptedContent"] = item["encrypted_content"]
        pieces = [("summary", each) for each in item.get("summary") or []]
        pieces += [("text", each) for each in item.get("content") or []]
        if not pieces:  # nothing to show, but the item must be sent back
            self._step.open("reasoning", (name, "summary", 0))
            self._step.close((name, "summary", 0), {"openai": metadata})
        counts = {"summary": 0, "text": 0}
        for kind, piece in pieces:
            key = (name, kind, counts[kind])
            counts[kind] += 1
            if not self._step.is_growing(key):
                self._step.open("reasoning", key)
                self._step.grow("reasoning", key, piece.get("text"))
            self._step.close(key, {"openai": metadata | ({"reasoningText": True} if kind == "text" else {})})

    # -- calls -------------------------------------------------------------------------------------

    def _arguments(self, event: dict[str, Any]) -> None:
        call = self._calls.get(event.get("item_id", ""))
        if call is not None:
            self._step.grow_call(call, event.get("delta"))


_TAKES: Final[dict[str, Callable[[ResponsesDecoder, dict[str, Any]], None]]] = {
    "response.created": ResponsesDecoder._created,
    "response.output_item.added": ResponsesDecoder._item_added,
    "response.output_item.done": ResponsesDecoder._item_done,
    "response.output_text.delta": ResponsesDecoder._text,
    "response.refusal.delta": ResponsesDecoder._refusal,
    "response.output_text.annotation.added": ResponsesDecoder._annotation,
    "response.reasoning_summary_text.delta": ResponsesDecoder._summary,
    "response.reasoning_text.delta": ResponsesDecoder._reasoning_text,
    "response.function_call_arguments.delta": ResponsesDecoder._arguments,
    "response.custom_tool_call_input.delta": ResponsesDecoder._arguments,
}


def _of_item(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {"itemId": item.get("id")} | ({"kind": item["type"]} if item["type"] != "function_call" else {})
    return {"openai": {key: value for key, value in metadata.items() if value}}


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("message") or error.get("code") or "The tool failed.")
    return str(error) if error else "The tool failed."


def _usage(usage: dict[str, Any]) -> dict[str, int]:
    input_details, output_details = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
    return usage_counts(
        inputTokens=usage.get("input_tokens"),
        outputTokens=usage.get("output_tokens"),
        totalTokens=usage.get("total_tokens"),
        cachedInputTokens=input_details.get("cached_tokens"),
        reasoningTokens=output_details.get("reasoning_tokens"),
    )
