"""Messages of Anthropic, through the real SDK and a provider on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import anthropic
import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.messages.message import Chunk, UIMessage
from everyword.messages.tool_calls import ErrorAnswer, OutputAnswer, settle
from everyword.models import anthropic_tools, from_anthropic, to_anthropic
from tests.agents.kit import served
from tests.models import recordings as r
from tests.models.checks import collected, failed, folded, kinds, only, question
from tests.models.provider import FakeProvider, Reply, cut, sse


def client(provider: FakeProvider) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=provider.url, api_key="k", max_retries=0)


def recorded(events: list[r.Event]) -> Reply:
    return Reply([sse(events, named=True)])


def ask(
    sdk: anthropic.AsyncAnthropic,
    provider: FakeProvider,
    reply: Reply,
    messages: list[UIMessage] | None = None,
    **how: Any,
) -> AsyncIterator[Chunk]:
    provider.replies.append(reply)
    asked = to_anthropic(messages or [question()])
    return from_anthropic(sdk.messages.create(**asked, model="claude-x", max_tokens=9, stream=True, **how))


@pytest.mark.parametrize("name", r.CLAUDE)
async def test_how_the_network_cuts_the_bytes_makes_no_difference(provider: FakeProvider, name: str) -> None:
    body = sse(r.CLAUDE[name], named=True)
    whole = await collected(from_anthropic(r.CLAUDE[name]))
    folded(whole)
    chance = Random(name)
    cuts = [list(range(len(body))), *(chance.sample(range(len(body)), 5) for _ in range(8))]
    async with client(provider) as sdk:
        for positions in cuts:
            assert await collected(ask(sdk, provider, Reply(cut(body, positions)))) == whole


@pytest.mark.obligation("003-47")
async def test_a_stream_may_be_returned_by_an_agent(provider: FakeProvider) -> None:
    provider.replies.append(recorded(r.CLAUDE_TEXT))

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            asked = to_anthropic(self.messages)
            return from_anthropic(sdk.messages.create(**asked, model="claude-x", max_tokens=9, stream=True))

    async with client(provider) as sdk, served(Chat) as serving:
        result = await serving.agent.save_messages([question()])
        said = folded(await collected(from_anthropic(r.CLAUDE_TEXT))).text
        assert (result.status, [m.text for m in serving.agent.messages][-1]) == ("completed", said)
        assert said


async def test_a_text_is_one_step_that_ends_with_its_counts() -> None:
    chunks = await collected(from_anthropic(r.CLAUDE_TEXT))
    counts = {"inputTokens": 14, "outputTokens": 5, "totalTokens": 19, "cachedInputTokens": 4}
    assert chunks == [
        {"type": "start-step"},
        {"type": "text-start", "id": "msg_1-0"},
        {"type": "text-delta", "id": "msg_1-0", "delta": "Grüß"},
        {"type": "text-delta", "id": "msg_1-0", "delta": " Gott 🙂"},
        {"type": "text-end", "id": "msg_1-0"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {"model": "claude-x", "usage": counts, "rawFinishReason": "end_turn"},
        },
    ]


@pytest.mark.parametrize("name", r.CLAUDE)
async def test_the_sdks_own_stream_says_the_same(provider: FakeProvider, name: str) -> None:
    provider.replies.append(recorded(r.CLAUDE[name]))
    async with client(provider) as sdk:
        stream = sdk.messages.stream(**to_anthropic([question()]), model="claude-x", max_tokens=9)
        assert await collected(from_anthropic(stream)) == await collected(from_anthropic(r.CLAUDE[name]))


async def test_a_blocking_stream_says_the_same(provider: FakeProvider) -> None:
    provider.replies.append(recorded(r.CLAUDE_TEXT))
    with anthropic.Anthropic(base_url=provider.url, api_key="k", max_retries=0) as sdk:
        stream = sdk.messages.create(**to_anthropic([question()]), model="claude-x", max_tokens=9, stream=True)
        assert await collected(from_anthropic(stream)) == await collected(from_anthropic(r.CLAUDE_TEXT))


async def test_thinking_goes_back_signed_and_calls_go_back_answered(provider: FakeProvider) -> None:
    async with client(provider) as sdk:
        chunks = await collected(ask(sdk, provider, recorded(r.CLAUDE_THINKING_CALL)))
        assert chunks[-1]["finishReason"] == "tool-calls"
        message = settle(folded(chunks), "toolu_a", OutputAnswer("sunny"))
        message = message and settle(message, "toolu_b", ErrorAnswer("no clock"))
        assert message is not None
        tools: Any = anthropic_tools([{"name": "weather", "parameters": {"type": "object"}}])
        again = [
            UIMessage("s", "system", [{"type": "text", "text": "Be brief."}]),
            question(),
            message,
            question("so?"),
        ]
        await collected(ask(sdk, provider, recorded(r.CLAUDE_TEXT), again, tools=tools))
    body = provider.bodies[-1]
    assert body["system"] == "Be brief."
    assert body["tools"] == [{"name": "weather", "input_schema": {"type": "object"}}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "let me think", "signature": "SIG"},
                {"type": "redacted_thinking", "data": "REDACTED"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "toolu_a", "name": "weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "toolu_b", "name": "time", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_a", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "toolu_b", "content": "no clock", "is_error": True},
                {"type": "text", "text": "so?"},
            ],
        },
    ]


async def test_a_search_goes_back_with_what_only_the_provider_can_read(provider: FakeProvider) -> None:
    async with client(provider) as sdk:
        message = folded(await collected(ask(sdk, provider, recorded(r.CLAUDE_SEARCH))))
        part = only(message, "tool-web_search")
        assert part["providerExecuted"] is True
        assert "SECRET" not in str(part["output"])
        assert only(message, "source-url")["title"] == "A page"
        await collected(ask(sdk, provider, recorded(r.CLAUDE_TEXT), [question(), message]))
    asked = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "weather"}}
    text = {"type": "text", "text": "It is sunny.", "citations": [r.QUOTED]}
    assert provider.bodies[-1]["messages"][1]["content"] == [asked, r.SEARCH_RESULT, text]


async def test_a_search_that_failed_is_a_failed_call_and_goes_back_as_it_was() -> None:
    failure = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": failure}
    asked: r.Event = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    events = r.message(r.block(0, asked, r.input_delta("{}")), r.block(1, result))
    message = folded(await collected(from_anthropic(events)))
    assert only(message, "tool-web_search")["errorText"] == "The tool failed: max_uses_exceeded."
    assert to_anthropic([message])["messages"][0]["content"] == [asked, result]


async def test_a_quoted_document_is_a_source() -> None:
    citation = {"type": "page_location", "document_index": 0, "document_title": "Manual", "cited_text": "x"}
    quote: r.Event = {"type": "citations_delta", "citation": citation}
    events = r.message(r.block(0, r.TEXT_BLOCK, r.text_delta("yes"), quote, quote))
    source = only(folded(await collected(from_anthropic(events))), "source-document")
    assert (source["title"], source["mediaType"]) == ("Manual", "application/pdf")


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        *(("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "content-filter"), ("pause_turn", "other")),
        *(("stop_sequence", "stop"), ("tool_use", "tool-calls"), ("something_new", "other")),
    ],
)
async def test_every_reason_to_stop_has_a_name_that_clients_know(stop: str, reason: str) -> None:
    chunks = await collected(from_anthropic(r.message(stop=stop)))
    assert chunks[-1]["finishReason"] == reason
    assert chunks[-1]["messageMetadata"]["rawFinishReason"] == stop


async def test_an_error_inside_the_stream_is_a_failure_that_keeps_what_was_said(provider: FakeProvider) -> None:
    report: r.Event = {"type": "error", "error": {"type": "overloaded_error", "message": "secret detail"}}
    events = [*r.CLAUDE_TEXT[:4], report]
    async with client(provider) as sdk:
        chunks, failure = await failed(ask(sdk, provider, recorded(events)))
    assert folded(chunks).text == "Grüß"
    assert (failure.kind, failure.retryable) == ("overloaded", True)
    assert "secret" not in failure.public_text
    again, same = await failed(from_anthropic(events))
    assert (again, same.kind) == (chunks, failure.kind)


async def test_the_connections_end_before_the_answers_is_a_failure(provider: FakeProvider) -> None:
    body = sse(r.CLAUDE_THINKING_CALL[:14], named=True)
    async with client(provider) as sdk:
        for reply in (Reply([body], is_dropped=True), Reply([body])):
            chunks, failure = await failed(ask(sdk, provider, reply))
            assert kinds(chunks)[-1] == "finish-step"
            assert (failure.kind, failure.retryable) == ("connection", True)
            folded(chunks)


async def test_thinking_without_a_signature_and_an_unfinished_call_are_not_sent_back() -> None:
    chunks, _ = await failed(from_anthropic([*r.CLAUDE_THINKING_CALL[:4], r.CLAUDE_THINKING_CALL[0]]))
    assert to_anthropic([folded(chunks)]) == {"messages": []}
