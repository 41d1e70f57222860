"""Conversations of Pydantic AI as UIMessages and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import BinaryContent, ImageUrl
from pydantic_ai.messages import (
    CachePoint,
    CompactionPart,
    FilePart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from everyword.messages.message import Part, UIMessage
from everyword.models import deferred_results, from_pydantic_ai_messages, to_pydantic_ai

_LEFT_OUT = {"timestamp", "usage", "run_id", "conversation_id", "retry", "model_name", "model_id"}


def comparable(messages: list[ModelMessage]) -> list[tuple[str, list[Any]]]:
    """Return kind and parts, without what a UIMessage has no place for; requests in a row are one."""
    out: list[tuple[str, list[Any]]] = []
    for message in ModelMessagesTypeAdapter.dump_python(messages, mode="json"):
        parts = [{key: value for key, value in part.items() if key not in _LEFT_OUT} for part in message["parts"]]
        if out and out[-1][0] == message["kind"] == "request":
            out[-1][1].extend(parts)
        else:
            out.append((message["kind"], parts))
    return out


def user(content: Any) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content)])


def assert_kept(*messages: ModelMessage) -> list[UIMessage]:
    shown = from_pydantic_ai_messages(messages)
    again = to_pydantic_ai([UIMessage.decode(message.encode()) for message in shown])
    assert comparable(again) == comparable(list(messages))
    return shown


def test_an_answer_of_several_responses_is_one_message_with_steps() -> None:
    shown = assert_kept(
        ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("hello")]),
        ModelResponse(parts=[TextPart("Looking."), ToolCallPart("weather", {"city": "x"}, "c1")]),
        ModelRequest(parts=[ToolReturnPart("weather", None, "c1")]),
        ModelResponse(parts=[TextPart("sunny")]),
        user("thanks"),
    )
    assert [message.role for message in shown] == ["system", "user", "assistant", "user"]
    assert [message.id for message in shown] == ["message-0", "message-1", "message-2", "message-3"]
    assert [part["type"] for part in shown[2].parts] == ["step-start", "text", "tool-weather", "step-start", "text"]
    assert shown[2].parts[2]["output"] is None


def test_files_keep_their_bytes_and_their_addresses() -> None:
    image = BinaryContent(b"hello", media_type="image/png")
    url = ImageUrl("https://example.org/a.png", media_type="image/png")
    shown = from_pydantic_ai_messages([user(["look", image, url, CachePoint()])])
    assert [part.get("url") for part in shown[0].parts[1:3]] == [
        *("data:image/png;base64,aGVsbG8=", "https://example.org/a.png"),
    ]
    again: Any = to_pydantic_ai(shown)[0]
    assert again.parts[0].content[0] == "look"
    assert again.parts[0].content[1].data == b"hello"
    assert again.parts[0].content[2].url == url.url
    assert isinstance(again.parts[0].content[3], CachePoint)


def test_what_providers_need_back_is_kept() -> None:
    assert_kept(
        user("hello"),
        ModelResponse(
            parts=[
                ThinkingPart("hm", id="t", signature="SIG", provider_name="p", provider_details={"a": 1}),
                NativeToolCallPart("web_search", {"q": 1}, "n1", provider_name="p", id="i"),
                NativeToolReturnPart("web_search", [{"url": "u"}], "n1", provider_name="p", provider_details={"b": 2}),
                TextPart("there", id="x", provider_name="p"),
                FilePart(BinaryContent(b"hello", media_type="image/png")),
            ]
        ),
    )


@pytest.mark.parametrize("outcome", ["failed", "retried", "denied", "interrupted"])
def test_every_outcome_of_a_call_is_kept(outcome: Any) -> None:
    assert_kept(
        user("hello"),
        ModelResponse(parts=[ToolCallPart("weather", {"city": "x"}, "c1")]),
        ModelRequest(parts=[ToolReturnPart("weather", "no", "c1", outcome=outcome)]),
    )


def test_arguments_that_are_no_json_are_kept_as_they_were() -> None:
    assert_kept(
        user("hello"),
        ModelResponse(parts=[ToolCallPart("weather", '{"city": ', "c1")]),
        ModelRequest(parts=[ToolReturnPart("weather", "bad", "c1", outcome="retried")]),
    )


def test_what_has_no_part_of_its_own_is_carried_along() -> None:
    feedback = RetryFeedbackPart("again", retry=RetryInfo(cause="model_retry"))
    shown = assert_kept(
        user("hello"),
        ModelResponse(parts=[CompactionPart("short", provider_name="p"), TextPart("x")]),
        ModelRequest(parts=[feedback]),
        ModelResponse(parts=[TextPart("y")]),
    )
    assert [part["type"] for part in shown[1].parts].count("data-pydantic-ai") == 2


def call(state: str, **fields: Any) -> Part:
    return {"type": "tool-refund", "toolCallId": "c1", "state": state, "input": {"n": 1}, **fields}


@pytest.mark.parametrize(
    ("part", "outcome"),
    [
        (call("input-available"), "interrupted"),
        (call("approval-requested", approval={"id": "a"}), "interrupted"),
        (call("approval-responded", approval={"id": "a", "approved": False}), "denied"),
        (call("output-denied", approval={"id": "a", "approved": False, "reason": "no"}), "denied"),
        (call("output-error", errorText="broken"), "failed"),
        (call("output-available", output=None), "success"),
    ],
)
def test_no_call_is_left_without_a_return(part: Part, outcome: str) -> None:
    messages: Any = to_pydantic_ai([UIMessage("m", "assistant", [{"type": "step-start"}, part])])
    assert [message.kind for message in messages] == ["response", "request"]
    assert messages[1].parts[0].outcome == outcome


def test_a_call_that_was_never_asked_in_full_is_not_there() -> None:
    assert to_pydantic_ai([UIMessage("m", "assistant", [call("input-streaming")])]) == []


def test_an_approved_call_stays_open_only_at_the_end() -> None:
    approved = UIMessage("m", "assistant", [call("approval-responded", approval={"id": "a", "approved": True})])
    assert [message.kind for message in to_pydantic_ai([approved])] == ["response"]
    results = deferred_results([approved])
    assert results is not None
    assert results.approvals == {"c1": True}
    later = [approved, UIMessage("q", "user", [{"type": "text", "text": "never mind"}])]
    assert [message.kind for message in to_pydantic_ai(later)] == ["response", "request", "request"]
    assert deferred_results(later) is None
    assert deferred_results([]) is None


def test_thinking_that_came_from_anthropics_adapter_keeps_its_signature() -> None:
    part = {"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "SIG"}}}
    thought: Any = to_pydantic_ai([UIMessage("m", "assistant", [part])])[0].parts[0]
    assert (thought.signature, thought.provider_name) == ("SIG", "anthropic")


_JSON = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=4)
_ARGS = st.dictionaries(st.text("abc", min_size=1, max_size=2), _JSON, max_size=2)
_OUTCOMES = st.sampled_from(["success", "failed", "retried", "denied", "interrupted"])


@st.composite
def responses(draw: st.DrawFn, number: int) -> list[ModelMessage]:
    """Draw one response and the returns of its calls."""
    said: list[Any] = [TextPart(text) for text in draw(st.lists(st.text(min_size=1, max_size=4), max_size=2))]
    heard = []
    for position in range(draw(st.integers(0, 2))):
        call_id, outcome = f"c{number}-{position}", draw(_OUTCOMES)
        said.append(ToolCallPart("t", draw(_ARGS), call_id))
        content = draw(_JSON) if outcome == "success" else draw(st.text(min_size=1, max_size=4))
        heard.append(ToolReturnPart("t", content, call_id, outcome=outcome))
    response = ModelResponse(parts=said or [ThinkingPart("hm")])
    return [response, *([ModelRequest(parts=heard)] if heard else [])]


@given(st.data())
def test_any_conversation_comes_back_as_it_was(data: st.DataObject) -> None:
    messages: list[ModelMessage] = []
    for number in range(data.draw(st.integers(1, 3))):
        messages.append(user(data.draw(st.text(min_size=1, max_size=4))))
        for step in range(data.draw(st.integers(1, 3))):
            messages += data.draw(responses(number * 10 + step))
    assert_kept(*messages)
