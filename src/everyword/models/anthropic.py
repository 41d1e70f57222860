"""Convert streams of Anthropic's Messages API to chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from ..messages.message import Chunk
from .errors import classify_error_report, model_error, stream_dropped
from .provider_stream import decode_stream, event_fields, usage_counts
from .step_writer import StepWriter

__all__ = ["AnthropicDecoder", "from_anthropic"]

_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}
_EXECUTED: Final = frozenset({"server_tool_use", "mcp_tool_use"})


def from_anthropic(stream: Any) -> AsyncIterator[Chunk]:
    """Yield the chunks of one streamed message.

    `stream` is the result of `messages.create(stream=True)` or `messages.stream(…)`, awaited and entered or not, or any
    iterable of its events as objects or dicts. The chunks are one step and one `finish`. Data that must be sent back
    with the next request (signatures, redacted thinking, results of the provider's own tools) is kept as provider
    metadata, which `to_anthropic` reads. Raises ChatError if the provider fails; `failure_of` returns the reason.
    """
    return decode_stream(stream, AnthropicDecoder(), provider="anthropic")


class AnthropicDecoder:
    """Decodes the events of one message. Events that only the SDK's own stream has are ignored."""

    def __init__(self) -> None:
        self._step = StepWriter()
        self._blocks: dict[int, dict[str, Any]] = {}  # index → the block's first event, plus data that must be kept
        self._usage: dict[str, Any] = {}
        self._metadata: dict[str, Any] = {}
        self._reason: str | None = None
        self._is_done = False

    def feed(self, event: Any) -> list[Chunk]:
        kind = event.get("type", "") if isinstance(event, dict) else getattr(event, "type", "")
        take = _TAKES.get(kind)
        if take is not None:
            take(self, event_fields(event))
        return self._step.take()

    def finish(self) -> list[Chunk]:
        if not self._is_done:
            raise model_error(stream_dropped("anthropic"))
        if self._usage:
            self._metadata["usage"] = _usage(self._usage)
        self._metadata["rawFinishReason"] = self._reason or "end_turn"
        self._step.finish(_REASONS.get(self._reason or "end_turn", "other"), self._metadata)
        return self._step.take()

    def close(self) -> list[Chunk]:
        self._step.end()
        return self._step.take()

    # -- message -----------------------------------------------------------------------------------

    def _message_start(self, event: dict[str, Any]) -> None:
        message = event["message"]
        self._step.name = message.get("id") or "message"
        self._step.begin()
        if message.get("model"):
            self._metadata["model"] = message["model"]
        self._usage.update(_known(message.get("usage")))

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._usage.update(_known(event.get("usage")))
        reason = (event.get("delta") or {}).get("stop_reason")
        self._reason = reason or self._reason

    def _message_stop(self, event: dict[str, Any]) -> None:
        self._is_done = True

    def _error(self, event: dict[str, Any]) -> None:
        raise model_error(classify_error_report(event.get("error"), provider="anthropic"))

    # -- blocks ------------------------------------------------------------------------------------

    def _block_start(self, event: dict[str, Any]) -> None:
        index, block = event["index"], dict(event["content_block"])
        self._blocks[index] = block
        kind = block.get("type", "")
        if kind == "text":
            self._step.open("text", index)
            self._step.grow("text", index, block.get("text"))
        elif kind == "thinking":
            self._step.open("reasoning", index)
            self._step.grow("reasoning", index, block.get("thinking"))
        elif kind == "redacted_thinking":
            self._step.open("reasoning", index, {"anthropic": {"redactedData": block.get("data")}})
        elif kind == "tool_use" or kind in _EXECUTED:
            # The server name of an MCP tool must be sent back with the call; nothing else of these blocks must.
            kept = {key: block[key] for key in ("type", "server_name", "caller") if block.get(key)}
            metadata = {"anthropic": kept} if kind in _EXECUTED else None
            self._step.start_call(block["id"], block["name"], is_provider_executed=kind in _EXECUTED, metadata=metadata)
        elif kind.endswith("_tool_result"):
            self._result(block)

    def _block_delta(self, event: dict[str, Any]) -> None:
        index, delta = event["index"], event["delta"]
        block = self._blocks.setdefault(index, {})
        match delta.get("type"):
            case "text_delta":
                self._step.grow("text", index, delta.get("text"))
            case "thinking_delta":
                self._step.grow("reasoning", index, delta.get("thinking"))
            case "signature_delta":
                block["signature"] = (block.get("signature") or "") + (delta.get("signature") or "")
            case "input_json_delta" if "id" in block:
                self._step.grow_call(block["id"], delta.get("partial_json"))
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
                self._citation(delta["citation"])

    def _block_stop(self, event: dict[str, Any]) -> None:
        block = self._blocks.get(event["index"]) or {}
        kind = block.get("type")
        if kind == "text":
            citations = block.get("citations")
            self._step.close(event["index"], {"anthropic": {"citations": citations}} if citations else None)
        elif kind == "thinking":
            signature = block.get("signature")
            self._step.close(event["index"], {"anthropic": {"signature": signature}} if signature else None)
        elif kind == "redacted_thinking":
            self._step.close(event["index"])
        elif kind == "tool_use" or kind in _EXECUTED:
            kept = {key: block[key] for key in ("type", "server_name", "caller") if block.get(key)}
            metadata = {"anthropic": kept} if kind in _EXECUTED else None
            if not self._step.inputs.get(block["id"]) and block.get("input"):
                self._step.end_call(block["id"], block["input"], metadata)
            else:
                self._step.end_call(block["id"], metadata=metadata)

    def _result(self, block: dict[str, Any]) -> None:
        call, content, metadata = block.get("tool_use_id") or "", block.get("content"), {"anthropic": {"block": block}}
        code = content.get("error_code") if isinstance(content, dict) else None
        if code or block.get("is_error"):
            self._step.fail_call(call, f"The tool failed: {code or 'no reason given'}.", metadata)
            return
        self._step.output(call, _shown(content), metadata)
        for found in content if isinstance(content, list) else []:
            if found.get("type") == "web_search_result":
                self._step.source(found.get("url") or "", found.get("title"))

    def _citation(self, citation: dict[str, Any]) -> None:
        if citation.get("url"):
            self._step.source(citation["url"], citation.get("title"))
        elif citation.get("document_index") is not None:
            title = citation.get("document_title") or f"Document {citation['document_index'] + 1}"
            is_paged = citation.get("type") == "page_location"
            media_type = "application/pdf" if is_paged else "text/plain"
            self._step.document(title, media_type=media_type, key=f"document {citation['document_index']}")


_TAKES: Final[dict[str, Callable[[AnthropicDecoder, dict[str, Any]], None]]] = {
    "message_start": AnthropicDecoder._message_start,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
    "error": AnthropicDecoder._error,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_stop": AnthropicDecoder._block_stop,
}


def _shown(content: Any) -> Any:
    """Return a result without its encrypted fields, which only the provider can read."""
    if isinstance(content, list):
        return [_shown(each) for each in content]
    if isinstance(content, dict):
        return {key: value for key, value in content.items() if not key.startswith("encrypted_")}
    return content


def _known(usage: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (usage or {}).items() if value is not None}


def _usage(usage: dict[str, Any]) -> dict[str, int]:
    cached = usage.get("cache_read_input_tokens") or 0
    input_tokens = (usage.get("input_tokens") or 0) + cached + (usage.get("cache_creation_input_tokens") or 0)
    output_tokens = usage.get("output_tokens") or 0
    counts = usage_counts(
        inputTokens=input_tokens, outputTokens=output_tokens, totalTokens=input_tokens + output_tokens
    )
    return counts | ({"cachedInputTokens": cached} if cached else {})
