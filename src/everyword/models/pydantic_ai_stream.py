"""Convert runs of Pydantic AI agents to chunks: every model response is a step, with the results of its calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from ..errors import BadChunk
from ..messages.chunks import as_chunk
from ..messages.message import Chunk
from .message_reader import output_text
from .provider_stream import decode_stream, open_stream, usage_counts
from .pydantic_ai_parts import part_metadata, result_metadata, to_data_part, to_json_value
from .step_writer import StepWriter

__all__ = ["PydanticAIDecoder", "from_pydantic_ai"]

_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}
_FROM_TOOLS: Final = ("data-", "source-", "file")
_TAKEN: Final = "pydantic-ai (run_stream_events or iter)"
_UNFINISHED: Final = "The tool did not finish."


class _Ended(msgspec.Struct):
    """The end of a run that was iterated node by node."""

    result: Any
    event_kind: str = "agent_run_result"


class _Cancelled(msgspec.Struct):
    event_kind: str = "cancelled"


def from_pydantic_ai(run: Any) -> AsyncIterator[Chunk]:
    """Yield the chunks of an agent's run.

    `run` is the result of `agent.run_stream_events(…)` (entered or not), the result of `agent.iter(…)` (the same, not
    iterated yet), or any iterable of their events. `run_stream` is not supported, because it hides the events before
    the final answer.

    A call that is answered in this run (approved or denied, and passed as `deferred_tool_results`) is not announced
    again. Calls that wait for an approval or for the client end the run with finish reason `tool-calls`. A tool that
    raises ends the run in Pydantic AI: its call fails, then the exception is raised unchanged. A cancelled run ends
    with `abort`. Custom events of the agent become transient data parts with their names. Failures of the provider
    raise ChatError, as with the other adapters.
    """
    return decode_stream(_events(run), PydanticAIDecoder(), provider="pydantic-ai")


async def _events(run: Any) -> AsyncIterator[Any]:
    try:
        async with _entered(run) as source, open_stream(source, provider=_TAKEN) as items:
            async for item in items:
                if hasattr(item, "event_kind"):
                    yield item
                elif hasattr(item, "stream"):
                    async with item.stream(source.ctx) as events:
                        async for event in events:
                            yield event
        if hasattr(source, "next_node"):
            yield _Ended(source.result)
    except Exception as error:
        if type(error).__name__ != "RunCancelled":
            raise
        yield _Cancelled()


@asynccontextmanager
async def _entered(run: Any) -> AsyncIterator[Any]:
    if hasattr(run, "__aenter__") and not hasattr(run, "__aiter__"):
        async with run as source:
            yield source
    else:
        yield run


class PydanticAIDecoder:
    """Decodes the events of one run. A step ends after the last part of a response, or when its tool calls start."""

    def __init__(self) -> None:
        self._count = 0
        self._step = StepWriter("step-0")
        self._is_over = False  # True if the response is complete: another part begins the next step
        self._announced: set[str] = set()
        self._unended_calls: dict[str, Any] = {}  # call id → its part; parallel calls may get deltas after it ends
        self._running: dict[str, None] = {}
        self._is_finished = False

    def feed(self, event: Any) -> list[Chunk]:
        take = _TAKES.get(getattr(event, "event_kind", ""))
        if take is not None:
            take(self, event)
        return self._step.take()

    def finish(self) -> list[Chunk]:
        if not self._is_finished:
            self._end_calls(*self._unended_calls)
            self._step.finish("other", {})
        return self._step.take()

    def close(self) -> list[Chunk]:
        for call in self._running:
            self._step.fail_call(call, _UNFINISHED)
        self._running.clear()
        self._step.end()
        return self._step.take()

    # -- parts -------------------------------------------------------------------------------------

    def _part_start(self, event: Any) -> None:
        if self._is_over:
            self._next_step()
        index, part = event.index, event.part
        self._step.begin()
        match part.part_kind:
            case "text" | "thinking":
                family = "text" if part.part_kind == "text" else "reasoning"
                self._step.close(index)
                self._step.open(family, index, part_metadata(part))
                self._step.grow(family, index, part.content)
            case "tool-call" | "builtin-tool-call":
                self._announced.add(part.tool_call_id)
                executed = part.part_kind != "tool-call"
                self._step.start_call(
                    part.tool_call_id, part.tool_name, is_provider_executed=executed, metadata=part_metadata(part)
                )
                self._step.grow_call(part.tool_call_id, part.args if isinstance(part.args, str) else None)
            case "builtin-tool-return":
                self._end_calls(part.tool_call_id)
                self._result(part)
            case "file":
                self._file(part)
            case _:
                self._step.add(to_data_part(part, is_response=True))

    def _part_delta(self, event: Any) -> None:
        delta = event.delta
        match delta.part_delta_kind:
            case "text":
                self._step.grow("text", event.index, delta.content_delta)
                self._cite(delta.citations_delta or ())
            case "thinking":
                self._step.grow("reasoning", event.index, delta.content_delta)
            case "tool_call" if isinstance(delta.args_delta, str) and delta.tool_call_id:
                self._step.grow_call(delta.tool_call_id, delta.args_delta)

    def _part_end(self, event: Any) -> None:
        part = event.part
        if part.part_kind in ("text", "thinking"):
            self._cite(getattr(part, "citations", None) or ())
            self._step.close(event.index, part_metadata(part))
        elif part.part_kind in ("tool-call", "builtin-tool-call"):
            self._unended_calls[part.tool_call_id] = part
        self._is_over = event.next_part_kind is None
        if self._is_over:
            self._end_calls(*self._unended_calls)

    def _end_calls(self, *calls: str) -> None:
        for part in [self._unended_calls.pop(call) for call in calls if call in self._unended_calls]:
            self._end_call(part)

    def _end_call(self, part: Any) -> None:
        metadata = part_metadata(part)
        if isinstance(part.args, dict):
            self._step.end_call(part.tool_call_id, to_json_value(part.args), metadata)
        else:
            self._step.end_call(part.tool_call_id, metadata=metadata)

    def _cite(self, citations: Iterable[Any]) -> None:
        for citation in citations:
            source = getattr(citation, "source", citation)
            self._step.source(getattr(source, "url", None) or "", getattr(source, "title", None))

    def _file(self, part: Any) -> None:
        file = part.content
        chunk: Chunk = {"type": "file", "url": file.data_uri, "mediaType": file.media_type}
        metadata = part_metadata(part)
        self._step.add(chunk | ({"providerMetadata": metadata} if metadata else {}))

    # -- calls -------------------------------------------------------------------------------------

    def _tool_call(self, event: Any) -> None:
        self._is_over = True
        part = event.part
        if part.tool_call_id in self._announced:
            self._unended_calls.pop(part.tool_call_id, None)
            self._end_call(part)
            self._running[part.tool_call_id] = None

    def _tool_result(self, event: Any) -> None:
        self._is_over = True
        self._end_calls(event.part.tool_call_id)
        self._result(event.part)
        for item in _chunks_of(event.part):
            self._step.add(item)

    def _result(self, part: Any) -> None:
        call, outcome = part.tool_call_id, getattr(part, "outcome", "failed")
        self._running.pop(call, None)
        metadata = result_metadata(part)
        if outcome == "success":
            self._step.output(call, to_json_value(part.content), metadata)
        elif outcome == "denied" and call not in self._announced:
            # Only a person's denial of an earlier request gives a denied call; the message has its approval.
            self._step.add_beside({"type": "tool-output-denied", "toolCallId": call})
        else:
            self._step.fail_call(call, output_text(to_json_value(part.content)), metadata)

    # -- the run -----------------------------------------------------------------------------------

    def _next_step(self) -> None:
        ended = self._step
        ended.end()
        self._count += 1
        self._is_over = False
        self._step = StepWriter(f"step-{self._count}")
        self._step.prepend(ended.take())

    def _enqueued(self, event: Any) -> None:
        self._is_over = True
        for message in event.messages:
            for part in getattr(message, "parts", ()):
                self._step.add_beside(to_data_part(part, is_response=message.kind == "response"))

    def _custom(self, event: Any) -> None:
        fields = to_json_value(event)
        shown = {
            name: value for name, value in fields.items() if name not in ("event_kind", "name") and value is not None
        }
        self._step.add_beside({"type": f"data-{event.name}", "data": shown, "transient": True})

    def _run_result(self, event: Any) -> None:
        result = event.result
        self._is_finished = True
        output = getattr(result, "output", None)
        is_deferred = type(output).__name__ == "DeferredToolRequests"
        for part in getattr(output, "approvals", ()) if is_deferred else ():
            call = part.tool_call_id
            self._step.add_beside({"type": "tool-approval-request", "approvalId": call, "toolCallId": call})
        finish_reason = getattr(getattr(result, "response", None), "finish_reason", None)
        self._step.finish(
            "tool-calls" if is_deferred else _REASONS.get(finish_reason or "stop", "other"), _run_metadata(result)
        )

    def _cancelled(self, event: Any) -> None:
        self._is_finished = True
        chunks = self.close()
        self._step.prepend(chunks)
        self._step.add_beside({"type": "abort", "reason": "cancelled"})


_TAKES: Final[dict[str, Callable[[PydanticAIDecoder, Any], None]]] = {
    "part_start": PydanticAIDecoder._part_start,
    "part_delta": PydanticAIDecoder._part_delta,
    "part_end": PydanticAIDecoder._part_end,
    "function_tool_call": PydanticAIDecoder._tool_call,
    "output_tool_call": PydanticAIDecoder._tool_call,
    "function_tool_result": PydanticAIDecoder._tool_result,
    "output_tool_result": PydanticAIDecoder._tool_result,
    "enqueued_messages": PydanticAIDecoder._enqueued,
    "custom": PydanticAIDecoder._custom,
    "agent_run_result": PydanticAIDecoder._run_result,
    "cancelled": PydanticAIDecoder._cancelled,
}


def _chunks_of(part: Any) -> list[Chunk]:
    """Return the chunks that a tool put into the metadata of its return: data parts, sources, files."""
    given = getattr(part, "metadata", None)
    found: list[Chunk] = []
    for item in given if isinstance(given, (list, tuple)) else [given]:
        dump = getattr(item, "model_dump", None)
        try:
            chunk = dump(mode="json", by_alias=True, exclude_none=True) if dump is not None else as_chunk(item)
        except BadChunk:
            continue
        if isinstance(chunk, dict) and str(chunk.get("type", "")).startswith(_FROM_TOOLS):
            found.append(chunk)
    return found


def _run_metadata(result: Any) -> dict[str, Any]:
    response, usage = getattr(result, "response", None), getattr(result, "usage", None)
    input_tokens, output_tokens = getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
    total = input_tokens + output_tokens if isinstance(input_tokens, int) and isinstance(output_tokens, int) else None
    counts = usage_counts(inputTokens=input_tokens, outputTokens=output_tokens, totalTokens=total)
    cached = getattr(usage, "cache_read_tokens", None)
    counts |= usage_counts(cachedInputTokens=cached) if cached else {}
    model = getattr(response, "model_name", None)
    return ({"model": model} if model else {}) | ({"usage": counts} if counts else {})
