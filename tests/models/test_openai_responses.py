"""Responses, through the real SDK and a provider on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import openai
import pytest

from everyword.messages.fold import MessageFold
from everyword.messages.message import Chunk, UIMessage
from everyword.messages.normaliser import Normaliser
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer, settle
from everyword.models import from_openai, openai_responses_tools, to_openai_responses
from tests.models import recordings as r
from tests.models.checks import collected, failed, folded, kinds, only, question
from tests.models.provider import FakeProvider, Reply, cut, sse


def client(provider: FakeProvider) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)


def recorded(events: list[r.Event]) -> Reply:
    return Reply([sse(events, named=True)])


def ask(
    sdk: openai.AsyncOpenAI,
    provider: FakeProvider,
    reply: Reply,
    messages: list[UIMessage] | None = None,
    **how: Any,
) -> AsyncIterator[Chunk]:
    provider.replies.append(reply)
    asked: Any = to_openai_responses(messages or [question()])
    return from_openai(sdk.responses.create(model="gpt-x", input=asked, stream=True, **how))


@pytest.mark.parametrize("name", r.RESPONSES)
async def test_how_the_network_cuts_the_bytes_makes_no_difference(provider: FakeProvider, name: str) -> None:
    body = sse(r.RESPONSES[name], named=True)
    whole = await collected(from_openai(r.RESPONSES[name]))
    folded(whole)
    chance = Random(name)
    cuts = [list(range(len(body))), *(chance.sample(range(len(body)), 5) for _ in range(8))]
    async with client(provider) as sdk:
        for positions in cuts:
            assert await collected(ask(sdk, provider, Reply(cut(body, positions)))) == whole


async def test_the_sdks_own_stream_says_the_same(provider: FakeProvider) -> None:
    provider.replies.append(recorded(r.RESPONSES_SEARCH))
    async with client(provider) as sdk:
        chunks = await collected(from_openai(sdk.responses.stream(model="gpt-x", input="hello")))
    assert chunks == await collected(from_openai(r.RESPONSES_SEARCH))


async def test_reasoning_and_a_call_go_back_as_the_items_they_were(provider: FakeProvider) -> None:
    async with client(provider) as sdk:
        chunks = await collected(ask(sdk, provider, recorded(r.RESPONSES_CALL)))
        assert chunks[-1]["finishReason"] == "tool-calls"
        assert chunks[-1]["messageMetadata"]["usage"]["reasoningTokens"] == 2
        message = folded(chunks)
        assert only(message, "reasoning")["text"] == "Think of Paris"
        answered = settle(message, "call_a", OutputAnswer("sunny"))
        assert answered is not None
        tools: Any = openai_responses_tools([{"name": "weather"}])
        await collected(ask(sdk, provider, recorded(r.RESPONSES_SEARCH), [question(), answered], tools=tools))
    assert provider.bodies[-1]["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "reasoning", "id": "rs_1", "summary": r.SUMMARY, "encrypted_content": "ENC"},
        {**r.FUNCTION, "arguments": '{"city":"Paris"}'},
        {"type": "function_call_output", "call_id": "call_a", "output": "sunny"},
    ]
    parameters = {"type": "object", "properties": {}}
    assert provider.bodies[-1]["tools"] == [
        {"type": "function", "name": "weather", "parameters": parameters, "strict": False}
    ]


async def test_a_search_is_run_by_the_provider_and_its_pages_are_sources(provider: FakeProvider) -> None:
    async with client(provider) as sdk:
        message = folded(await collected(ask(sdk, provider, recorded(r.RESPONSES_SEARCH))))
        part = only(message, "tool-web_search")
        assert part["providerExecuted"] is True
        assert part["state"] == "output-available"
        assert part["input"] == {"action": {"type": "search", "query": "weather"}}
        assert only(message, "source-url")["url"] == "https://example.org/a"
        await collected(ask(sdk, provider, recorded(r.RESPONSES_REFUSAL), [question(), message]))
    said = {"type": "message", "role": "assistant", "status": "completed", "id": "msg_1", "content": [r.TEXT_CONTENT]}
    assert provider.bodies[-1]["input"][1:] == [r.SEARCH, said]


async def test_code_and_images_come_back_whole(provider: FakeProvider) -> None:
    async with client(provider) as sdk:
        message = folded(await collected(ask(sdk, provider, recorded(r.RESPONSES_BUILT_IN))))
        assert only(message, "tool-code_interpreter")["output"] == {"status": "completed", "outputs": r.CODE_OUTPUTS}
        assert only(message, "file")["url"] == "data:image/png;base64,aGVsbG8="
        await collected(ask(sdk, provider, recorded(r.RESPONSES_REFUSAL), [question(), message]))
    code = {**r.CODE, "status": "completed", "outputs": r.CODE_OUTPUTS}
    assert provider.bodies[-1]["input"][1:] == [code, r.IMAGE]


async def test_an_image_is_stored_once() -> None:
    chunks = await collected(from_openai(r.RESPONSES_BUILT_IN))
    assert str(chunks).count("aGVsbG8=") == 1


async def test_a_refusal_goes_back_as_a_refusal() -> None:
    message = folded(await collected(from_openai(r.RESPONSES_REFUSAL)))
    assert message.text == "I cannot."
    assert to_openai_responses([message])[0]["content"] == [{"type": "refusal", "refusal": "I cannot."}]


async def test_a_tool_with_free_text_gets_its_text_back() -> None:
    call: r.Event = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_x", "name": "sql"}
    events = [
        r.CREATED,
        r.item("added", 0, **call, input=""),
        r.response("custom_tool_call_input.delta", item_id="ct_1", output_index=0, delta="select 1"),
        r.item("done", 0, **call, input="select 1"),
        r.completed(),
    ]
    message = folded(await collected(from_openai(events)))
    answered = settle(message, "call_x", OutputAnswer([1]))
    assert answered is not None
    assert to_openai_responses([answered]) == [
        {**call, "input": "select 1"},
        {"type": "custom_tool_call_output", "call_id": "call_x", "output": "[1]"},
    ]


async def test_an_answer_that_ran_out_of_tokens_says_so() -> None:
    chunks = await collected(from_openai(r.RESPONSES_INCOMPLETE))
    assert chunks[-1]["finishReason"] == "length"
    assert folded(chunks).text == "It is"


async def test_reasoning_without_a_summary_still_goes_back() -> None:
    thought = r.item("done", 0, type="reasoning", id="rs_9", summary=[], encrypted_content="E")
    message = folded(await collected(from_openai([r.CREATED, thought, r.completed()])))
    assert to_openai_responses([message]) == [
        {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "E"}
    ]


async def test_a_server_that_sends_no_deltas_is_understood() -> None:
    done = [event for event in r.RESPONSES_SEARCH if not event["type"].endswith(("delta", "added"))]
    assert folded(await collected(from_openai(done))).text == "It is sunny."


@pytest.mark.parametrize("kind", ["error", "response.failed"])
async def test_an_error_inside_the_stream_is_a_failure_that_keeps_what_was_said(
    provider: FakeProvider, kind: str
) -> None:
    report = {"code": "server_error", "message": "secret detail"}
    event: r.Event = {"type": "error", "sequence_number": 9, "param": None, **report}
    if kind == "response.failed":
        event = r.response("failed", response={**r.RESPONSE, "status": "failed", "error": report})
    async with client(provider) as sdk:
        chunks, failure = await failed(ask(sdk, provider, recorded([*r.RESPONSES_INCOMPLETE[:5], event])))
    assert kinds(chunks)[-2:] == ["text-end", "finish-step"] or kinds(chunks) == ["start-step", "finish-step"]
    folded(chunks)
    assert (failure.kind, failure.retryable) == ("provider", True)
    assert "secret" in failure.text
    assert "secret" not in failure.public_text


async def test_a_stream_that_just_ends_is_a_failure(provider: FakeProvider) -> None:
    async with client(provider) as sdk:
        chunks, failure = await failed(ask(sdk, provider, recorded(r.RESPONSES_SEARCH[:-1])))
    assert folded(chunks).text == "It is sunny."
    assert failure.kind == "connection"


SCREEN: r.Event = {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="}
CLICK: r.Event = {"type": "computer_call", "id": "cu_1", "call_id": "call_k", "status": "completed"}
CLICK |= {"action": {"type": "click", "x": 1, "y": 2, "button": "left"}, "pending_safety_checks": []}


async def test_a_tool_of_the_provider_that_the_caller_runs_is_an_ordinary_call() -> None:
    chunks = await collected(
        from_openai([r.CREATED, r.item("added", 0, **CLICK), r.item("done", 0, **CLICK), r.completed()])
    )
    assert chunks[-1]["finishReason"] == "tool-calls"
    message = folded(chunks)
    assert only(message, "tool-computer_use")["input"]["action"]["type"] == "click"
    assert to_openai_responses([message]) == []
    answered = settle(message, "call_k", OutputAnswer(SCREEN))
    assert answered is not None
    output = {"type": "computer_call_output", "call_id": "call_k", "output": SCREEN}
    assert to_openai_responses([answered]) == [CLICK, output]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_the_provider_wants_approved_gets_its_answer(approved: bool) -> None:
    request: r.Event = {
        "type": "mcp_approval_request",
        "id": "ap_1",
        "server_label": "s",
        "name": "n",
        "arguments": "{}",
    }
    chunks = await collected(from_openai([r.CREATED, r.item("done", 0, **request), r.completed()]))
    message = folded(chunks)
    assert only(message, "tool-mcp")["state"] == "approval-requested"
    answered = settle(message, "ap_1", ApprovalAnswer(approved))
    assert answered is not None
    reply = {"type": "mcp_approval_response", "approval_request_id": "ap_1", "approve": approved}
    assert to_openai_responses([answered]) == [request, reply]


async def test_two_answers_with_a_result_between_them_make_one_message() -> None:
    first = await collected(from_openai(r.RESPONSES_CALL))
    result: Chunk = {"type": "tool-output-available", "toolCallId": "call_a", "output": "sunny"}
    second = await collected(from_openai(r.RESPONSES_SEARCH))
    normaliser = Normaliser("m")
    out = [made for chunk in [*first, result, *second] for made in normaliser.feed(chunk)] + normaliser.finish()
    assert normaliser.problems == []
    assert [chunk["type"] for chunk in out].count("finish") == 1
    fold = MessageFold("m")
    for chunk in out:
        fold.apply(chunk)
    sent = [item["type"] for item in to_openai_responses([fold.message()])]
    assert sent == ["reasoning", "function_call", "function_call_output", "web_search_call", "message"]
    assert fold.finish_reason == "stop"
