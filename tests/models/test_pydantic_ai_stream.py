"""Runs of Pydantic AI agents, with its own models for tests; and through the real SDKs against a provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    CancellationToken,
    CustomEvent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    FilePart,
    ModelMessage,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartEndEvent,
    PartStartEvent,
    TextPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from everyword.errors import UsageError
from everyword.messages.message import Chunk, UIMessage
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer, settle
from everyword.models import deferred_results, from_pydantic_ai, to_pydantic_ai
from tests.models import recordings as r
from tests.models.checks import collected, failed, folded, kinds, only, question
from tests.models.provider import FakeProvider, Reply, sse

Step = list[Any] | Exception


def scripted(*steps: Step) -> FunctionModel:
    """Return a model whose nth response is the nth step: texts, thoughts and calls by index, or an exception."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        step = steps[sum(1 for message in messages if message.kind == "response")]
        for item in step if isinstance(step, list) else [step]:
            if isinstance(item, Exception):
                raise item
            yield item

    return FunctionModel(stream_function=stream)


def call(name: str, arguments: str = "{}", call_id: str = "c1", index: int = 1) -> dict[int, DeltaToolCall]:
    return {index: DeltaToolCall(name=name, json_args=arguments, tool_call_id=call_id)}


def run(agent: Agent[None, Any], prompt: str | None = "hello", **how: Any) -> AsyncIterator[Chunk]:
    return from_pydantic_ai(agent.run_stream_events(prompt, **how))


def with_tool(tool: Callable[..., Any], *steps: Step, **how: Any) -> Agent[None, Any]:
    agent: Agent[None, Any] = Agent(scripted(*steps), output_type=[str, DeferredToolRequests])
    agent.tool_plain(**how)(tool) if how else agent.tool_plain(tool)
    return agent


class Order(BaseModel):
    number: int


def weather(city: str) -> str:
    """Return the weather."""
    return f"sunny in {city}"


async def test_every_response_is_a_step_with_the_results_of_its_calls() -> None:
    thought = {0: DeltaThinkingPart(content="hm", signature="SIG")}
    agent = with_tool(weather, [thought, "Looking.", call("weather", '{"city": "Paris"}')], ["It is ", "sunny."])
    chunks = await collected(run(agent))
    assert kinds(chunks) == [
        *("start-step", "reasoning-start", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-end"),
        *("tool-input-start", "tool-input-delta", "tool-input-available", "tool-output-available", "finish-step"),
        *("start-step", "text-start", "text-delta", "text-delta", "text-end", "finish-step", "finish"),
    ]
    assert chunks[-1]["finishReason"] == "stop"
    assert chunks[-1]["messageMetadata"]["usage"]["outputTokens"] > 0
    message = folded(chunks)
    assert only(message, "tool-weather")["output"] == "sunny in Paris"
    assert only(message, "reasoning")["providerMetadata"]["pydantic_ai"]["signature"] == "SIG"


async def test_the_same_run_always_gives_the_same_chunks() -> None:
    agent = with_tool(weather, ["a", call("weather", '{"city": "x"}')], ["b"])
    assert await collected(run(agent)) == await collected(run(agent))


async def test_a_run_read_node_by_node_gives_the_same_chunks() -> None:
    agent = with_tool(weather, ["a", call("weather", '{"city": "x"}')], ["b"])
    expected = await collected(run(agent))
    assert await collected(from_pydantic_ai(agent.iter("hello"))) == expected
    async with agent.iter("hello") as entered:
        assert await collected(from_pydantic_ai(entered)) == expected
    async with agent.run_stream_events("hello") as events:
        assert await collected(from_pydantic_ai(events)) == expected


async def test_calls_that_grow_side_by_side_are_whole() -> None:
    city = {1: DeltaToolCall(json_args='"Paris"}')}
    begun = call("weather", '{"city": '), call("weather", '{"city": "Rome"}', "c2", 2)
    message = folded(await collected(run(with_tool(weather, ["a", *begun, city], ["done"]))))
    outputs = {part["toolCallId"]: part["output"] for part in message.parts if part["type"] == "tool-weather"}
    assert outputs == {"c1": "sunny in Paris", "c2": "sunny in Rome"}


async def test_a_tool_that_returns_none_has_an_output() -> None:
    def forget() -> None:
        """Do something."""

    chunks = await collected(run(with_tool(forget, [call("forget")], ["done"])))
    assert {"type": "tool-output-available", "toolCallId": "c1", "output": None} in chunks
    assert only(folded(chunks), "tool-forget")["state"] == "output-available"


async def test_outputs_are_json_whatever_the_tool_returned() -> None:
    def find() -> Order:
        return Order(number=4)

    chunks = await collected(run(with_tool(find, [call("find")], ["done"])))
    assert only(folded(chunks), "tool-find")["output"] == {"number": 4}


async def test_a_tool_that_asks_for_another_try_failed_once() -> None:
    def picky(n: int) -> str:
        if n == 1:
            raise ModelRetry("not 1")
        return "fine"

    agent = with_tool(picky, [call("picky", '{"n": 1}')], [call("picky", '{"n": 2}', "c2")], ["done"])
    message = folded(await collected(run(agent)))
    states = [(part["state"], part.get("errorText", "")[:5]) for part in message.parts if part["type"] == "tool-picky"]
    assert states == [("output-error", "not 1"), ("output-available", "")]


@pytest.mark.parametrize(
    ("name", "arguments"), [("weather", '{"city": 4'), ("weather", '{"town": "x"}'), ("nope", "{}")]
)
async def test_a_call_that_cannot_be_made_fails_and_the_run_goes_on(name: str, arguments: str) -> None:
    message = folded(await collected(run(with_tool(weather, [call(name, arguments)], ["sorry"]))))
    part = only(message, f"tool-{name}")
    assert part["state"] == "output-error"
    assert part["errorText"]
    assert message.text == "sorry"


async def test_a_tool_that_raises_fails_its_call_and_its_exception_comes_out() -> None:
    def boom() -> str:
        raise ZeroDivisionError("secret")

    chunks: list[Chunk] = []

    async def read() -> None:
        async for chunk in run(with_tool(boom, ["a", call("boom")])):
            chunks.append(chunk)

    with pytest.raises(ZeroDivisionError):
        await read()
    assert kinds(chunks)[-2:] == ["tool-output-error", "finish-step"]
    assert "secret" not in str(chunks)
    assert only(folded(chunks), "tool-boom")["state"] == "output-error"


async def test_approval_is_asked_for_given_and_acted_on_in_one_message() -> None:
    def refund() -> str:
        """Refund it."""
        return "refunded"

    agent = with_tool(refund, ["ok", call("refund")], ["done"], requires_approval=True)
    chunks = await collected(run(agent))
    assert kinds(chunks)[-3:] == ["tool-approval-request", "finish-step", "finish"]
    assert chunks[-1]["finishReason"] == "tool-calls"
    approved = settle(folded(chunks), "c1", ApprovalAnswer(True))
    assert approved is not None
    history = [question(), approved]
    results = deferred_results(history)
    assert results is not None
    more = await collected(run(agent, None, message_history=to_pydantic_ai(history), deferred_tool_results=results))
    assert kinds(more)[:2] == ["tool-output-available", "start-step"]
    assert "tool-input-available" not in kinds(more)
    message = folded(more, base=approved)
    assert only(message, "tool-refund")["output"] == "refunded"
    assert only(message, "tool-refund")["approval"]["approved"] is True
    assert message.text == "okdone"


async def test_a_refused_call_is_not_made_and_the_model_hears_why() -> None:
    heard: list[ModelMessage] = []
    made: list[str] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        heard.extend(messages)
        yield "understood"

    agent: Agent[None, Any] = Agent(FunctionModel(stream_function=stream), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def refund() -> None:
        made.append("refund")

    asked = UIMessage("m", "assistant", [{"type": "step-start"}, {"type": "tool-refund", "toolCallId": "c1"}])
    asked.parts[1] |= {"state": "approval-requested", "input": {}, "approval": {"id": "c1"}}
    refused = settle(asked, "c1", ApprovalAnswer(False, "too much"))
    assert refused is not None
    history = [question(), refused]
    assert deferred_results(history) is None
    more = await collected(run(agent, None, message_history=to_pydantic_ai(history)))
    assert folded(more, base=refused).text == "understood"
    answer: Any = heard[-1].parts[0]
    assert (answer.content, answer.outcome, made) == ("too much", "denied", [])


async def test_a_refusal_given_to_the_run_makes_the_call_denied() -> None:
    agent = with_tool(weather, [call("weather", '{"city": "x"}')], ["done"], requires_approval=True)
    message = folded(await collected(run(agent)))
    approved = settle(message, "c1", ApprovalAnswer(True))
    assert approved is not None
    results = DeferredToolResults(approvals={"c1": ToolDenied("no")})
    history = to_pydantic_ai([question(), approved])
    more = await collected(run(agent, None, message_history=history, deferred_tool_results=results))
    assert more[0] == {"type": "tool-output-denied", "toolCallId": "c1"}


async def test_a_tool_of_the_client_waits_and_its_result_goes_on() -> None:
    toolset: ExternalToolset[None] = ExternalToolset([ToolDefinition(name="location")])
    model = scripted([call("location")], ["Paris then"])
    agent: Agent[None, Any] = Agent(model, output_type=[str, DeferredToolRequests], toolsets=[toolset])
    chunks = await collected(run(agent))
    assert chunks[-1]["finishReason"] == "tool-calls"
    assert only(folded(chunks), "tool-location")["state"] == "input-available"
    answered = settle(folded(chunks), "c1", OutputAnswer({"city": "Paris"}))
    assert answered is not None
    more = await collected(run(agent, None, message_history=to_pydantic_ai([question(), answered])))
    assert folded(more, base=answered).text == "Paris then"


async def test_a_typed_result_is_a_call_with_an_output() -> None:
    class City(BaseModel):
        name: str

    agent: Agent[None, Any] = Agent(TestModel(custom_output_args={"name": "Paris"}), output_type=City)
    message = folded(await collected(run(agent)))
    assert only(message, "tool-final_result")["input"] == {"name": "Paris"}
    assert only(message, "tool-final_result")["state"] == "output-available"


async def test_a_tools_own_chunks_follow_its_output() -> None:
    def chart() -> ToolReturn:
        source = {"type": "source-url", "sourceId": "s", "url": "https://example.org"}
        return ToolReturn("drawn", metadata=[{"type": "data-chart", "data": [1, 2]}, source, {"private": 1}])

    message = folded(await collected(run(with_tool(chart, [call("chart")], ["done"]))))
    assert only(message, "data-chart")["data"] == [1, 2]
    assert only(message, "source-url")["url"] == "https://example.org"


@dataclass(kw_only=True)
class LookingEvent(CustomEvent):
    done: int


async def test_an_agents_own_events_are_shown_and_not_kept() -> None:
    agent: Agent[None, Any] = Agent(scripted([call("look")], ["done"]))

    @agent.tool
    async def look(ctx: RunContext[None]) -> str:
        await ctx.emit(LookingEvent(done=3))
        return "seen"

    chunks = await collected(run(agent))
    shown = next(chunk for chunk in chunks if chunk["type"] == "data-looking")
    assert shown == {
        "type": "data-looking",
        "data": {"done": 3, "tool_call_id": "c1", "tool_name": "look"},
        "transient": True,
    }
    assert "data-looking" not in [part["type"] for part in folded(chunks).parts]


async def test_what_a_tool_puts_before_the_model_is_told_again_next_time() -> None:
    agent: Agent[None, Any] = Agent(scripted([call("steer")], ["done"]))

    @agent.tool
    def steer(ctx: RunContext[None]) -> str:
        ctx.enqueue("mind this too")
        return "ok"

    chunks = await collected(run(agent))
    assert chunks == await collected(run(agent))
    again: Any = to_pydantic_ai([folded(chunks)])
    assert [part.content for part in again[1].parts] == ["ok", "mind this too"]


async def test_files_and_the_providers_own_tools_are_parts() -> None:
    search = NativeToolCallPart("web_search", {"query": "x"}, "n1", provider_name="p")
    found = NativeToolReturnPart("web_search", [{"url": "u"}], "n1", provider_name="p", provider_details={"k": 1})
    image = FilePart(BinaryContent(b"hello", media_type="image/png"))

    said = [search, found, image, TextPart("there")]
    starts = [PartStartEvent(index=n, part=part) for n, part in enumerate(said)]
    ends = [PartEndEvent(index=n, part=part, next_part_kind="text") for n, part in enumerate(said)]
    events = [event for pair in zip(starts, ends, strict=True) for event in pair]
    message = folded(await collected(from_pydantic_ai(events)))
    part = only(message, "tool-web_search")
    assert (part["providerExecuted"], part["input"], part["output"]) == (True, {"query": "x"}, [{"url": "u"}])
    assert only(message, "file")["url"] == "data:image/png;base64,aGVsbG8="
    again: Any = to_pydantic_ai([message])[0]
    assert [each.part_kind for each in again.parts] == [
        *("builtin-tool-call", "builtin-tool-return", "file", "text"),
    ]
    assert again.parts[1].provider_details == {"k": 1}


async def test_a_model_that_fails_in_the_middle_keeps_what_it_said() -> None:
    error = ModelHTTPError(529, "m", {"error": {"type": "overloaded_error", "message": "secret"}})
    chunks, failure = await failed(run(Agent(scripted(["half", error]))))
    assert kinds(chunks)[-2:] == ["text-end", "finish-step"]
    assert folded(chunks).text == "half"
    assert (failure.kind, failure.retryable) == ("overloaded", True)


async def test_a_model_that_fails_at_once_opens_no_step() -> None:
    chunks, failure = await failed(run(Agent(scripted(ModelHTTPError(401, "m", "bad key")))))
    assert chunks == []
    assert (failure.kind, failure.retryable) == ("key", False)


async def test_a_cancelled_run_ends_with_abort() -> None:
    token = CancellationToken()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "half"
        token.cancel()
        await asyncio.Event().wait()

    chunks = await collected(run(Agent(FunctionModel(stream_function=stream)), cancellation_token=token))
    assert kinds(chunks)[-3:] == ["text-end", "finish-step", "abort"]
    assert chunks[-1]["reason"] == "cancelled"
    assert folded(chunks).text == "half"


async def test_a_run_that_hides_its_steps_is_refused_with_a_sentence() -> None:
    agent: Agent[None, str] = Agent(scripted(["x"]))
    with pytest.raises(UsageError, match="run_stream_events"):
        await collected(from_pydantic_ai(agent.run_stream("hello")))


async def test_openais_sdk_under_the_agent_streams_and_gets_its_messages_back(provider: FakeProvider) -> None:
    provider.replies += [Reply([sse(events, done=True)]) for events in (r.CHAT_CALLS, r.CHAT_TEXT, r.CHAT_TEXT)]
    async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0) as sdk:
        agent = with_tool(weather, [])
        agent.tool_plain(name="time")(lambda: None)
        model = OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=sdk))
        message = folded(await collected(run(agent, model=model)))
        assert only(message, "tool-weather")["output"] == "sunny in Paris"
        assert only(message, "tool-time")["output"] is None
        first = provider.bodies[1]["messages"]
        await collected(run(agent, "and now?", model=model, message_history=to_pydantic_ai([question(), message])))
    # What our messages tell the provider is what the run itself told it.
    assert provider.bodies[2]["messages"][: len(first)] == first
    assert provider.bodies[2]["messages"][-1] == {"role": "user", "content": "and now?"}


async def test_anthropics_sdk_under_the_agent_gets_its_signatures_back(provider: FakeProvider) -> None:
    replies = (r.CLAUDE_THINKING_CALL, r.CLAUDE_TEXT, r.CLAUDE_TEXT)
    provider.replies += [Reply([sse(events, named=True)]) for events in replies]
    async with anthropic.AsyncAnthropic(base_url=provider.url, api_key="k", max_retries=0) as sdk:
        agent = with_tool(weather, [])
        agent.tool_plain(name="time")(lambda: None)
        model = AnthropicModel("claude-x", provider=AnthropicProvider(anthropic_client=sdk))
        message = folded(await collected(run(agent, model=model)))
        first = provider.bodies[1]["messages"]
        await collected(run(agent, "and now?", model=model, message_history=to_pydantic_ai([question(), message])))
    assert provider.bodies[2]["messages"][: len(first)] == first
    signed = [block.get("signature") for block in first[1]["content"]]
    assert "SIG" in signed
