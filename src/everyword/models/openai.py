"""Convert streams of OpenAI and compatible servers to chunks: chat completions and responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from ..messages.message import Chunk
from .errors import classify_error_report, model_error, stream_dropped
from .openai_responses import ResponsesDecoder
from .provider_stream import ProviderDecoder, decode_stream, event_fields, usage_counts
from .step_writer import StepWriter

__all__ = ["ChatCompletionsDecoder", "OpenAIDecoder", "from_openai"]

_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
}
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")


def from_openai(stream: Any) -> AsyncIterator[Chunk]:
    """Yield the chunks of one streamed answer. Its events tell whether it is a chat completion or a response.

    `stream` is the result of `create(stream=True)` or `.stream(…)`, awaited or not, or any iterable of its events as
    objects or dicts. The chunks are one step and one `finish`, with the token counts as message metadata (chat
    completions need `stream_options={"include_usage": True}` for them). Raises ChatError if the provider fails;
    `failure_of` returns the reason.
    """
    return decode_stream(stream, OpenAIDecoder(), provider="openai")


class OpenAIDecoder:
    """Decodes either API: the first event tells which one."""

    def __init__(self) -> None:
        self._decoder: ProviderDecoder | None = None

    def feed(self, event: Any) -> list[Chunk]:
        kind = event.get("type") if isinstance(event, dict) else getattr(event, "type", None)
        if kind == "chunk":  # the SDK's own stream wraps the events of chat completions
            event = event["chunk"] if isinstance(event, dict) else event.chunk
            kind = None
        elif isinstance(kind, str) and not kind.startswith(("response.", "error")):
            return []  # an event that only the SDK's own stream has
        if self._decoder is None:
            self._decoder = ChatCompletionsDecoder() if kind is None else ResponsesDecoder()
        return self._decoder.feed(event_fields(event))

    def finish(self) -> list[Chunk]:
        if self._decoder is None:
            raise model_error(stream_dropped("openai"))
        return self._decoder.finish()

    def close(self) -> list[Chunk]:
        return [] if self._decoder is None else self._decoder.close()


class ChatCompletionsDecoder:
    """Chunks of a chat completion. Only the first choice is read: a message has one answer."""

    def __init__(self) -> None:
        self._step = StepWriter()
        self._is_begun = False
        self._calls: dict[int, str] = {}  # the provider's index → call id
        self._renumbered: dict[int, int] = {}
        self._waiting: dict[int, str] = {}  # arguments that came before the call's name
        self._reason: str | None = None
        self._metadata: dict[str, Any] = {}

    def feed(self, event: dict[str, Any]) -> list[Chunk]:
        if event.get("error"):
            raise model_error(classify_error_report(event["error"], provider="openai"))
        self._begin(event)
        if event.get("usage"):
            self._metadata["usage"] = _usage(event["usage"])
        for choice in event.get("choices") or []:
            if choice.get("index", 0) == 0:
                self._take(choice)
        return self._step.take()

    def finish(self) -> list[Chunk]:
        if self._reason is None:
            raise model_error(stream_dropped("openai"))
        self._end_calls()
        self._metadata["rawFinishReason"] = self._reason
        reason = _REASONS.get(self._reason, "other")
        if reason == "stop" and self._calls:
            reason = "tool-calls"  # several servers report `stop` after tool calls
        self._step.finish(reason, self._metadata)
        return self._step.take()

    def close(self) -> list[Chunk]:
        self._step.end()
        return self._step.take()

    def _begin(self, event: dict[str, Any]) -> None:
        if self._is_begun:
            return
        self._is_begun = True
        self._step.name = event.get("id") or "response"
        if event.get("model"):
            self._metadata["model"] = event["model"]
        self._step.begin()

    def _take(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta") or {}
        for field in _REASONING_FIELDS:
            if isinstance(delta.get(field), str) and delta[field]:
                self._reasoning(field, delta[field])
                break
        self._text("content", delta.get("content"), None)
        self._text("refusal", delta.get("refusal"), {"openai": {"refusal": True}})
        for annotation in delta.get("annotations") or []:
            cited = annotation.get("url_citation") or {}
            self._step.source(cited.get("url", ""), cited.get("title"))
        for image in delta.get("images") or []:
            _add_image(self._step, (image.get("image_url") or {}).get("url"))
        for position, call in enumerate(delta.get("tool_calls") or []):
            self._call(position, call)
        if choice.get("finish_reason"):
            self._reason = choice["finish_reason"]

    def _reasoning(self, field: str, text: str) -> None:
        if not self._step.is_growing("reasoning"):
            self._step.close_others()
            self._step.open("reasoning", "reasoning", {"openai": {"field": field}})
        self._step.grow("reasoning", "reasoning", text)

    def _text(self, key: str, text: Any, metadata: dict[str, Any] | None) -> None:
        if not isinstance(text, str) or not text:
            return
        if not self._step.is_growing(key):
            self._step.close_others()
            self._step.open("text", key, metadata)
        self._step.grow("text", key, text)

    def _call(self, position: int, call: dict[str, Any]) -> None:
        function, index = call.get("function") or {}, self._index(position, call)
        arguments = function.get("arguments") or ""
        if index not in self._calls and not function.get("name"):
            self._waiting[index] = self._waiting.get(index, "") + arguments
            return
        if index not in self._calls:
            self._step.close_others()
            self._calls[index] = call.get("id") or f"{self._step.name}-call-{len(self._calls)}"
            self._step.start_call(self._calls[index], function["name"])
            arguments = self._waiting.pop(index, "") + arguments
        self._step.grow_call(self._calls[index], arguments)

    def _index(self, position: int, call: dict[str, Any]) -> int:
        """Return the index of the call of a delta. Some servers give every parallel call the index 0, or no index."""
        given = call.get("index")
        index = self._renumbered.get(given, given) if isinstance(given, int) else position
        if call.get("id") and self._calls.get(index, call["id"]) != call["id"]:
            index = max(self._calls) + 1
            if isinstance(given, int):
                self._renumbered[given] = index
        return index

    def _end_calls(self) -> None:
        for call in self._calls.values():
            self._step.end_call(call)


def _add_image(step: StepWriter, url: Any) -> None:
    if isinstance(url, str) and url:
        media_type = url[5:].partition(";")[0] if url.startswith("data:") else "image/png"
        step.add({"type": "file", "url": url, "mediaType": media_type})


def _usage(usage: dict[str, Any]) -> dict[str, int]:
    input_details, output_details = (
        usage.get("prompt_tokens_details") or {},
        usage.get("completion_tokens_details") or {},
    )
    return usage_counts(
        inputTokens=usage.get("prompt_tokens"),
        outputTokens=usage.get("completion_tokens"),
        totalTokens=usage.get("total_tokens"),
        cachedInputTokens=input_details.get("cached_tokens"),
        reasoningTokens=output_details.get("reasoning_tokens"),
    )
