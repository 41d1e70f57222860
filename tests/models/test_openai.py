"""Chat completions, through the real SDK and a provider on loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import openai
import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.errors import UsageError
from everyword.messages.message import Chunk, UIMessage
from everyword.messages.tool_calls import OutputAnswer, settle
from everyword.models import from_openai, openai_tools, to_openai
from tests.agents.kit import served
from tests.models import recordings as r
from tests.models.checks import collected, failed, folded, kinds, objects, only, question, settled
from tests.models.provider import FakeProvider, Reply, cut, sse


def client(provider: FakeProvider, **how: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0, **how)


async def ask(
    provider: FakeProvider, reply: Reply, messages: list[UIMessage] | None = None, **how: Any
) -> AsyncIterator[Chunk]:
    async with client(provider) as sdk:
        async for chunk in ask_again(sdk, provider, reply, messages, **how):
            yield chunk


def ask_again(
    sdk: openai.AsyncOpenAI,
    provider: FakeProvider,
    reply: Reply,
    messages: list[UIMessage] | None = None,
    **how: Any,
) -> AsyncIterator[Chunk]:
    provider.replies.append(reply)
    asked: Any = to_openai(messages or [question()])
    return from_openai(sdk.chat.completions.create(model="gpt-x", messages=asked, stream=True, **how))


def recorded(events: list[r.Event]) -> Reply:
    return Reply([sse(events, done=True)])


async def test_a_text_is_one_step_that_ends_with_its_counts(provider: FakeProvider) -> None:
    chunks = await collected(ask(provider, recorded(r.CHAT_TEXT)))
    counts = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cachedInputTokens": 4, "reasoningTokens": 2}
    assert chunks == [
        {"type": "start-step"},
        {"type": "text-start", "id": "chatcmpl-1-0"},
        {"type": "text-delta", "id": "chatcmpl-1-0", "delta": "Grüß"},
        {"type": "text-delta", "id": "chatcmpl-1-0", "delta": " Gott 🙂"},
        {"type": "text-end", "id": "chatcmpl-1-0"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {"model": "gpt-x", "usage": counts, "rawFinishReason": "stop"},
        },
    ]
    assert folded(chunks).text == "Grüß Gott 🙂"


@pytest.mark.parametrize("name", r.CHAT)
async def test_how_the_network_cuts_the_bytes_makes_no_difference(provider: FakeProvider, name: str) -> None:
    body = sse(r.CHAT[name], done=True)
    whole = await collected(from_openai(objects(r.CHAT[name])))
    folded(whole)
    chance = Random(name)
    cuts = [list(range(len(body))), *(chance.sample(range(len(body)), 5) for _ in range(12))]
    async with client(provider) as sdk:
        for positions in cuts:
            assert await collected(ask_again(sdk, provider, Reply(cut(body, positions)))) == whole


@pytest.mark.obligation("003-46")
async def test_a_stream_may_be_returned_by_an_agent(provider: FakeProvider) -> None:
    provider.replies.append(recorded(r.CHAT_TEXT))

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            asked: Any = to_openai(self.messages)
            return from_openai(sdk.chat.completions.create(model="gpt-x", messages=asked, stream=True))

    async with client(provider) as sdk, served(Chat) as serving:
        result = await serving.agent.save_messages([question()])
        assert (result.status, [m.text for m in serving.agent.messages][-1]) == ("completed", "Grüß Gott 🙂")


async def test_parallel_calls_stream_their_arguments_side_by_side(provider: FakeProvider) -> None:
    chunks = await collected(ask(provider, recorded(r.CHAT_CALLS)))
    assert kinds(chunks)[3:11] == [
        *("text-end", "tool-input-start", "tool-input-delta", "tool-input-start"),
        *("tool-input-delta", "tool-input-delta", "tool-input-available", "tool-input-available"),
    ]
    assert chunks[-1]["finishReason"] == "tool-calls"
    message = folded(chunks)
    assert only(message, "tool-weather")["input"] == {"city": "Paris"}
    assert only(message, "tool-time")["state"] == "input-available"


async def test_what_was_said_and_done_goes_back_with_the_next_call(provider: FakeProvider) -> None:
    message = folded(await collected(ask(provider, recorded(r.CHAT_CALLS))))
    answered = settle(message, "call_a", OutputAnswer({"sky": "clear"}))
    assert answered is not None
    tools = openai_tools([{"name": "weather", "description": "The weather.", "parameters": {"type": "object"}}])
    await collected(ask(provider, recorded(r.CHAT_TEXT), [question(), answered], tools=tools))
    calls = [
        {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}},
        {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
    ]
    assert provider.bodies[-1]["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Looking.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_a", "content": '{"sky":"clear"}'},
        {"role": "tool", "tool_call_id": "call_b", "content": "The call was interrupted: it has no result."},
    ]
    function = {"name": "weather", "description": "The weather.", "parameters": {"type": "object"}}
    assert provider.bodies[-1]["tools"] == [{"type": "function", "function": function}]


async def test_arguments_that_are_no_json_make_an_input_error(provider: FakeProvider) -> None:
    chunks = await collected(ask(provider, recorded(r.CHAT_BROKEN_CALL)))
    broken = next(chunk for chunk in chunks if chunk["type"] == "tool-input-error")
    assert broken["input"] == '{"city": "Pa'
    part = only(folded(chunks), "tool-weather")
    assert part["state"] == "output-error"
    assert part["errorText"].startswith("The model wrote arguments that cannot be read")
    again = to_openai([folded(chunks)])
    assert [each["role"] for each in again] == ["assistant", "tool"]
    assert again[1]["content"] == part["errorText"]


async def test_reasoning_is_a_part_of_its_own_and_goes_back_on_request(provider: FakeProvider) -> None:
    message = folded(await collected(ask(provider, recorded(r.CHAT_REASONING))))
    assert only(message, "reasoning")["text"] == "let me think"
    assert to_openai([message]) == [{"role": "assistant", "content": "four"}]
    kept = {"role": "assistant", "content": "four", "reasoning_content": "let me think"}
    assert to_openai([message], reasoning=True) == [kept]


async def test_a_refusal_is_shown_as_text_and_sent_back_as_a_refusal(provider: FakeProvider) -> None:
    message = folded(await collected(ask(provider, recorded(r.CHAT_REFUSAL))))
    assert message.text == "I cannot."
    assert to_openai([message]) == [{"role": "assistant", "refusal": "I cannot."}]


async def test_the_sdks_own_stream_says_the_same(provider: FakeProvider) -> None:
    provider.replies.append(recorded(r.CHAT_CALLS))
    async with client(provider) as sdk:
        stream = sdk.chat.completions.stream(model="gpt-x", messages=[{"role": "user", "content": "hello"}])
        chunks = await collected(from_openai(stream))
    assert chunks == await collected(from_openai(r.CHAT_CALLS))


async def test_a_blocking_stream_says_the_same(provider: FakeProvider) -> None:
    provider.replies.append(recorded(r.CHAT_TEXT))
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0) as sdk:
        stream = sdk.chat.completions.create(model="gpt-x", messages=[], stream=True)
        chunks = await collected(from_openai(stream))
    assert chunks == await collected(from_openai(r.CHAT_TEXT))


async def test_calls_that_all_have_the_index_0_are_told_apart_by_their_ids() -> None:
    events = [
        r.chat_call(0, '{"n": 1}', "one", "a"),
        r.chat_call(0, '{"n":', "two", "b"),
        r.chat_call(0, " 2}"),
        r.chat({}, finish="stop"),
    ]
    chunks = await collected(from_openai(events))
    inputs = {part["toolCallId"]: part["input"] for part in folded(chunks).parts[1:]}
    assert inputs == {"a": {"n": 1}, "b": {"n": 2}}
    assert chunks[-1]["finishReason"] == "tool-calls"


async def test_a_call_without_an_id_gets_one_that_is_always_the_same() -> None:
    events = [r.chat_call(0, "{}", "one"), r.chat({}, finish="tool_calls")]
    calls = {chunk.get("toolCallId") for chunk in await collected(from_openai(events))}
    assert calls == {None, "chatcmpl-1-call-0"}


async def test_the_connections_end_before_the_answers_is_a_failure_after_what_was_said(provider: FakeProvider) -> None:
    body = sse(r.CHAT_TEXT[:2])
    for reply in (Reply([body], is_dropped=True), Reply([body])):
        chunks, failure = await failed(ask(provider, reply))
        assert kinds(chunks) == ["start-step", "text-start", "text-delta", "text-end", "finish-step"]
        assert failure.kind == "connection"
        assert failure.retryable
        assert folded(chunks).text == "Grüß"


async def test_an_error_inside_the_stream_is_a_failure_that_keeps_what_was_said(provider: FakeProvider) -> None:
    report = {"error": {"message": "secret detail", "type": "server_error", "code": "rate_limit_exceeded"}}
    body = sse([*r.CHAT_TEXT[:2], report])
    chunks, failure = await failed(ask(provider, Reply([body])))
    assert folded(chunks).text == "Grüß"
    assert (failure.kind, failure.retryable) == ("rate-limit", True)
    assert "secret" in failure.text
    assert "secret" not in failure.public_text


async def test_leaving_early_closes_the_connection(provider: FakeProvider) -> None:
    provider.replies.append(Reply([sse(r.CHAT_TEXT[:2]), b"never"], gate=threading.Event()))
    async with client(provider) as sdk:
        chunks = from_openai(sdk.chat.completions.create(model="gpt-x", messages=[], stream=True))
        async for chunk in chunks:
            if chunk["type"] == "text-delta":
                break
        await chunks.aclose()  # type: ignore[attr-defined]
        await settled()
    assert await asyncio.to_thread(provider.left.wait, 20)


async def test_what_is_no_stream_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="unable to read int as a stream of openai"):
        await collected(from_openai(3))


async def test_an_answer_that_was_not_streamed_is_refused_with_a_sentence() -> None:
    whole = openai.types.chat.ChatCompletion.construct(id="x", choices=[])
    with pytest.raises(UsageError, match="ask for one with `stream=True`"):
        await collected(from_openai(whole))
