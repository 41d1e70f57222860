"""OpenTelemetry spans with the GenAI conventions: one per attempt, one per tool call. Needs `everyword[otel]`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ..extras import missing
from ..ids import split_agent_id
from ..messages.message import Chunk
from ..runtime.api import TurnCall
from ..trace_context import trace_with
from .api import Observer, StreamFunction

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["Tracing"]

_USAGE: Final = {"inputTokens": "gen_ai.usage.input_tokens", "outputTokens": "gen_ai.usage.output_tokens"}


class Tracing(Observer):
    """Creates a span `invoke_agent` for every attempt at a turn, and `execute_tool` for every tool call in it.

    The spans are current while the agent's code runs, so spans of instrumented model clients and of sub-agents that
    the code calls are their children. Message contents are not recorded.

    Args:
        tracer_provider: The tracer provider; the global one by default.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as exc:
            raise missing("opentelemetry-api", "otel", "trace") from exc
        self._trace = trace
        self._carrier = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("everyword", tracer_provider=tracer_provider)

    def around(self, stream: StreamFunction) -> StreamFunction:
        async def traced(call: TurnCall) -> AsyncGenerator[Any, None]:
            kind, _ = split_agent_id(call.agent)
            trace_with(self._traceparent)
            with self._tracer.start_as_current_span(
                f"invoke_agent {kind}",
                context=self._carrier.extract({"traceparent": call.trace}) if call.trace is not None else None,
                attributes=_attributes(call, kind) | self._about_node,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                calls = _ToolCallSpans(self, call)
                try:
                    answer: Any = stream(replace(call, start_call=calls.start, write=calls.write))
                    async with aclosing(answer) as items:
                        async for item in items:
                            _note(self, span, item)
                            yield item
                except GeneratorExit:
                    span.set_attribute("everyword.outcome", "aborted")
                    raise
                except BaseException as exc:
                    self.fail(span, exc, is_cancelled=call.cancelled.is_set())
                    raise
                finally:
                    calls.end()

        return traced

    def _traceparent(self) -> str | None:
        """Return the current span as a traceparent, which is stored with a request to a sub-agent."""
        carried: dict[str, str] = {}
        self._carrier.inject(carried)
        return carried.get("traceparent")

    def fail(self, span: Span, exc: BaseException, *, is_cancelled: bool) -> None:
        if is_cancelled or not isinstance(exc, Exception):
            span.set_attribute("everyword.outcome", "aborted")
            return
        span.record_exception(exc)
        self.mark(span, type(exc).__qualname__, str(exc))

    def mark(self, span: Span, kind: str, text: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, text))

    def start_call(self, call: str, tool: str) -> Span:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
        }
        return self._tracer.start_span(f"execute_tool {tool}", attributes=attributes | self._about_node)

    @property
    def _about_node(self) -> dict[str, str]:
        return {} if self.node_name is None else {"everyword.node": self.node_name}


class _ToolCallSpans:
    """The spans of the tool calls of one attempt: each from the start of the call to its output."""

    def __init__(self, tracing: Tracing, call: TurnCall) -> None:
        self._tracing, self._call = tracing, call
        self._open: dict[str, tuple[Span, Any]] = {}

    async def start(self, call: str, tool: str, is_idempotent: bool) -> bool:
        from opentelemetry import context, trace

        may_run = await self._call.start_call(call, tool, is_idempotent)
        if may_run:
            span = self._tracing.start_call(call, tool)
            # This runs in the tool's own task: spans that the tool creates become children of its span.
            self._open[call] = span, context.attach(trace.set_span_in_context(span))
        return may_run

    async def write(self, chunk: Chunk) -> None:
        from opentelemetry import context

        await self._call.write(chunk)
        kind = chunk.get("type")
        is_final = kind == "tool-output-error" or (kind == "tool-output-available" and not chunk.get("preliminary"))
        found = self._open.pop(str(chunk.get("toolCallId")), None) if is_final else None
        if found is not None:
            span, token = found
            if kind == "tool-output-error":
                self._tracing.mark(span, "tool_error", str(chunk.get("errorText", "")))
            context.detach(token)
            span.end()

    def end(self) -> None:
        """End the spans of calls that had no output when the attempt ended."""
        for span, _ in self._open.values():
            span.set_attribute("everyword.outcome", "interrupted")
            span.end()
        self._open.clear()


def _attributes(call: TurnCall, kind: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": kind,
        "gen_ai.agent.id": call.agent,
        "gen_ai.conversation.id": call.agent,
        "everyword.turn": call.turn,
        "everyword.request": call.request,
        "everyword.attempt": call.attempt,
        "everyword.continuation": call.is_continuation,
    }


def _note(tracing: Tracing, span: Span, item: Any) -> None:
    """Set span attributes from a chunk, as the GenAI conventions name them."""
    if not isinstance(item, dict):
        return
    if item.get("type") == "error":
        tracing.mark(span, "stream_error", str(item.get("errorText", "")))
    if item.get("type") != "finish":
        return
    if isinstance(item.get("finishReason"), str):
        span.set_attribute("gen_ai.response.finish_reasons", [item["finishReason"]])
    metadata = item.get("messageMetadata")
    if not isinstance(metadata, dict):
        return
    if isinstance(metadata.get("model"), str):
        span.set_attribute("gen_ai.response.model", metadata["model"])
    usage = metadata.get("usage")
    for name, attribute in _USAGE.items():
        if isinstance(usage, dict) and isinstance(usage.get(name), int):
            span.set_attribute(attribute, usage[name])
