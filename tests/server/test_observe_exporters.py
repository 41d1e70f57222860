"""OpenTelemetry spans and Prometheus metrics, read back from the real libraries' own in-memory ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from everyword import AIChatAgent, ChatError, Everyword, Think, Turn, agent_tool, tool
from everyword.errors import ChatFailed
from everyword.events import TurnEnded
from everyword.observe import Happened, Metrics, Tracing
from everyword.server import Principal
from everyword.testing import Call, Gate, LocalServer, Once, ScriptedModel
from tests.server.kit import talking


class Chat(Think):
    """Looks things up."""

    model = ScriptedModel(["Looking. ", Call("find", {"number": "7"}), "Found."], ["x", ValueError("secret")])
    tracer: Any = None

    @tool
    async def find(self, number: str) -> str:
        with self.tracer.start_as_current_span("a database"):
            return f"order {number}"

    @tool
    async def broken(self) -> str:
        raise ChatError("out of order")


def traced() -> tuple[InMemorySpanExporter, TracerProvider]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider


async def ask(server: LocalServer, *texts: str) -> None:
    async with server.client("chat") as chat:
        for text in texts:
            await asyncio.gather(chat.send(text)._last(), return_exceptions=True)


def named(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


async def test_an_attempt_is_a_span_and_the_agents_own_spans_lie_inside() -> None:
    exporter, provider = traced()
    Chat.tracer = provider.get_tracer("test")
    async with LocalServer(Everyword([Chat], observe=[Tracing(provider)])) as server:
        await ask(server, "order 7?")
    spans = named(exporter)
    agent, call, inner = spans["invoke_agent chat"], spans["execute_tool find"], spans["a database"]
    assert call.parent is not None and call.parent.span_id == agent.context.span_id
    assert inner.parent is not None and inner.parent.span_id == call.context.span_id
    facts = dict(agent.attributes or {})
    assert facts["gen_ai.operation.name"] == "invoke_agent" and facts["gen_ai.agent.name"] == "chat"
    assert facts["gen_ai.conversation.id"] == "chat/test" and facts["everyword.attempt"] == 1
    assert facts["gen_ai.response.model"] == "scripted" and facts["gen_ai.usage.output_tokens"] > 0
    assert facts["gen_ai.response.finish_reasons"] == ("stop",)
    assert agent.status.is_ok and agent.parent is None
    told = dict(call.attributes or {})
    assert told["gen_ai.tool.name"] == "find" and str(told["gen_ai.tool.call.id"]).startswith("call-")


def answering(*answers: Any) -> type[AIChatAgent]:
    model = ScriptedModel(*answers)

    async def on_chat_message(self: AIChatAgent, turn: Turn) -> AsyncIterator[Any]:
        async for chunk in model.stream(self.messages):
            yield chunk

    return type("Chat", (AIChatAgent,), {"on_chat_message": on_chat_message})


@pytest.mark.parametrize(
    ("item", "kind"),
    [(ChatError("No luck."), "ChatError"), ({"type": "error", "errorText": "No luck."}, "stream_error")],
)
async def test_a_failure_is_in_the_span_whether_it_was_raised_or_came_in_the_stream(item: Any, kind: str) -> None:
    exporter, provider = traced()
    async with LocalServer(Everyword([answering(["half ", item])], observe=[Tracing(provider)])) as server:
        await ask(server, "hi")
    span = named(exporter)["invoke_agent chat"]
    assert not span.status.is_ok and span.status.description == "No luck."
    assert (span.attributes or {})["error.type"] == kind


async def test_a_turn_that_is_stopped_is_no_error() -> None:
    gate = Gate()
    exporter, provider = traced()
    async with LocalServer(Everyword([answering(["half ", gate])], observe=[Tracing(provider)])) as server:
        async with server.client("chat") as chat:
            reply = chat.send("hi")
            await gate.reached.wait()
            await chat.stop()
            await reply
    span = named(exporter)["invoke_agent chat"]
    assert span.status.is_ok or span.status.is_unset
    assert (span.attributes or {})["everyword.outcome"] == "aborted"


async def test_every_attempt_has_a_span_of_its_own() -> None:
    class Passing(ChatError):
        retryable = True

    exporter, provider = traced()
    app = Everyword([answering(["half ", Once(Passing("busy")), "whole"])], observe=[Tracing(provider)])
    async with LocalServer(app) as server:
        await ask(server, "hi")
    spans = exporter.get_finished_spans()
    assert [(span.attributes or {})["everyword.attempt"] for span in spans] == [1, 2]


async def test_a_tool_that_fails_is_in_its_span() -> None:
    class Shop(Chat):
        model = ScriptedModel([Call("broken"), "Sorry."])

    Shop.__name__ = "Chat"
    exporter, provider = traced()
    async with LocalServer(Everyword([Shop], observe=[Tracing(provider)])) as server:
        await ask(server, "hi")
    spans = named(exporter)
    assert not spans["execute_tool broken"].status.is_ok
    assert spans["invoke_agent chat"].status.is_ok


async def test_nothing_is_current_outside_an_answer() -> None:
    exporter, provider = traced()
    async with LocalServer(Everyword([answering("hello")], observe=[Tracing(provider)])) as server:
        await ask(server, "hi")
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert len(exporter.get_finished_spans()) == 1


class Clerk(Think):
    model = ScriptedModel(["Counted."])


class Lead(Think):
    """Asks a sub-agent, which is a tool."""

    kind = "chat"
    model = ScriptedModel([Call("clerk", {"input": "go"}), "Done."])
    tools = [agent_tool(Clerk, description="Counts.")]  # noqa: RUF012 - as users write it


async def test_a_sub_agents_spans_lie_inside_the_call_that_asks_it() -> None:
    exporter, provider = traced()
    async with LocalServer(Everyword([Lead], observe=[Tracing(provider)])) as server:
        await ask(server, "count")
    spans = named(exporter)
    lead, call, clerk = spans["invoke_agent chat"], spans["execute_tool clerk"], spans["invoke_agent clerk"]
    assert clerk.context.trace_id == call.context.trace_id == lead.context.trace_id
    assert clerk.parent is not None and clerk.parent.span_id == call.context.span_id
    assert lead.parent is None


async def test_a_sub_agent_that_is_asked_by_code_lies_inside_the_span_that_is_current_there() -> None:
    exporter, provider = traced()

    class Asking(AIChatAgent):
        kind = "chat"

        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            with provider.get_tracer("test").start_as_current_span("by hand"):
                result = await self.run_agent_tool(Clerk, "go", run_id="one")
            yield result.summary

    async with LocalServer(Everyword([Asking], observe=[Tracing(provider)])) as server:
        await ask(server, "count")
    spans = named(exporter)
    clerk, outer = spans["invoke_agent clerk"], spans["by hand"]
    assert clerk.parent is not None and clerk.parent.span_id == outer.context.span_id


async def test_an_agent_that_is_asked_through_a_handle_lies_inside_the_span_that_asks() -> None:
    exporter, provider = traced()

    class Asking(AIChatAgent):
        kind = "chat"

        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            with provider.get_tracer("test").start_as_current_span("by hand"):
                clerk = await self.sub_agent(Clerk, "one")
                result = await clerk.save_messages("go")
            yield result.status

    async with LocalServer(Everyword([Asking], observe=[Tracing(provider)])) as server:
        await ask(server, "count")
    spans = named(exporter)
    clerk, outer = spans["invoke_agent clerk"], spans["by hand"]
    assert clerk.parent is not None and clerk.parent.span_id == outer.context.span_id


async def test_a_sub_agents_tokens_are_in_its_parents_usage_and_counted_once() -> None:
    registry = CollectorRegistry()
    ends: dict[str, dict[str, Any]] = {}

    def note(happened: Happened) -> None:
        if isinstance(happened.event, TurnEnded):
            ends[happened.agent_kind] = json.loads(bytes(happened.event.usage))

    app = Everyword([Lead], observe=[Metrics(registry)], on_event=note)
    async with LocalServer(app) as server:
        await ask(server, "count")
    assert ends["clerk"]["outputTokens"] > 0
    assert ends["chat"]["subAgents"] == ends["clerk"]
    for kind in ("chat", "clerk"):
        counted = registry.get_sample_value("everyword_tokens_total", {"kind": kind, "direction": "output"})
        assert counted == ends[kind]["outputTokens"]


# -- metrics ----------------------------------------------------------------------------------------------------------


async def test_turns_attempts_chunks_calls_and_tokens_are_counted() -> None:
    Chat.tracer = TracerProvider().get_tracer("test")
    registry = CollectorRegistry()
    async with LocalServer(Everyword([Chat], observe=[Metrics(registry)])) as server:
        await ask(server, "order 7?", "and?")

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(name, {"kind": "chat", **labels}) or 0.0

    assert value("everyword_turns_total", outcome="completed") == 1
    assert value("everyword_turns_total", outcome="error") == 1
    assert value("everyword_attempts_total", cause="first") == 2
    assert value("everyword_tool_calls_total", tool="find") == 1
    assert value("everyword_chunks_total") > 8
    assert value("everyword_tokens_total", direction="output") > 0
    assert value("everyword_turn_seconds_count") == 2
    assert value("everyword_turn_wait_seconds_count") == 2
    assert value("everyword_first_chunk_seconds_count") == 2
    assert value("everyword_open_turns") == 0


async def test_a_turn_that_goes_on_is_open() -> None:
    gate, registry = Gate(), CollectorRegistry()
    metrics = Metrics(registry)
    async with LocalServer(Everyword([answering(["half", gate])], observe=[metrics])) as server:
        async with server.client("chat") as chat:
            reply = chat.send("hi")
            await gate.reached.wait()
            for _ in range(100):
                await asyncio.sleep(0)  # it is told in a task of its own
            assert registry.get_sample_value("everyword_open_turns", {"kind": "chat"}) == 1
            gate.open()
            await reply


async def test_metrics_are_served_to_this_machine_only_by_default() -> None:
    app = Everyword([answering("x")], store="memory:", observe=[Metrics()])
    async with talking(app) as client:
        url = str(client.base_url).split("/agents")[0]
        answer = await client.get(f"{url}/metrics")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
        assert b"everyword_loaded_agents" in answer.content
        refused = await client.get(f"{url}/metrics", headers={"host": "example.org"})
        assert refused.status_code == 403

    async def admit(connecting: Any) -> Principal:
        return Principal("ann")

    metrics = Metrics(path="/inside/metrics", allow=lambda request: request.headers.get("x-scraper") == "yes")
    async with talking(Everyword([answering("x")], store="memory:", authorize=admit, observe=[metrics])) as client:
        url = str(client.base_url).split("/agents")[0]
        assert (await client.get(f"{url}/inside/metrics")).status_code == 403
        assert (await client.get(f"{url}/inside/metrics", headers={"x-scraper": "yes"})).status_code == 200
        assert (await client.get(f"{url}/metrics")).status_code == 404


async def test_metrics_are_not_served_by_default() -> None:
    async with talking(Everyword([answering("x")], store="memory:")) as client:
        url = str(client.base_url).split("/agents")[0]
        assert (await client.get(f"{url}/metrics")).status_code == 404


async def test_an_observer_changes_nothing_about_an_answer() -> None:
    _, provider = traced()
    app = Everyword([answering("hello", ["half ", ChatError("No luck.")])], observe=[Tracing(provider), Metrics()])
    async with LocalServer(app) as server, server.client("chat") as chat:
        assert (await chat.send("hi")).text == "hello"  # type: ignore[union-attr]
        with pytest.raises(ChatFailed, match=r"No luck\."):
            await chat.send("and?")
