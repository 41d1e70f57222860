"""What every provider is told of a conversation: properties over all `to_*`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.messages.message import Part, UIMessage
from everyword.models import to_anthropic, to_openai, to_openai_responses, to_pydantic_ai
from everyword.models.message_reader import output_text, read_data_url, read_tool_call, split_steps

STATES = ["input-streaming", "input-available", "approval-requested", "approval-responded", "output-available"]
STATES += ["output-error", "output-denied"]


@st.composite
def calls(draw: st.DrawFn, number: int) -> Part:
    state = draw(st.sampled_from(STATES))
    part: Part = {"type": f"tool-{draw(st.sampled_from('ab'))}", "toolCallId": f"c{number}", "state": state}
    if draw(st.booleans()):
        part |= {"input": draw(st.sampled_from([{}, {"x": 1}, "text", None, [1]]))}
    if state == "output-available":
        part["output"] = draw(st.sampled_from([None, "x", {"y": [1]}, 3]))
    if state == "output-error":
        part |= {"errorText": "broken", "rawInput": draw(st.sampled_from(['{"x"', '{"x": 1}', ""]))}
    if state.startswith("approval") or state == "output-denied":
        approved = {"approved": state != "output-denied" and draw(st.booleans())}
        part["approval"] = {"id": f"a{number}"} | ({} if state == "approval-requested" else approved)
    return part


@st.composite
def conversations(draw: st.DrawFn) -> list[UIMessage]:
    messages, number = [], 0
    for turn in range(draw(st.integers(1, 3))):
        messages.append(UIMessage(f"q{turn}", "user", [{"type": "text", "text": "q"}]))
        parts: list[Part] = []
        for _ in range(draw(st.integers(0, 3))):
            parts.append({"type": "step-start"})
            parts += [{"type": "text", "text": draw(st.sampled_from(["", "said"]))}] * draw(st.integers(0, 1))
            for _ in range(draw(st.integers(0, 3))):
                parts.append(draw(calls(number)))
                number += 1
        messages.append(UIMessage(f"m{turn}", "assistant", parts))
    messages.append(UIMessage("last", "user", [{"type": "text", "text": "q"}]))
    return messages


def asked(messages: list[UIMessage]) -> list[str]:
    return [p["toolCallId"] for m in messages for p in m.parts if p.get("state") not in (None, "input-streaming")]


@given(conversations())
def test_a_chat_completion_sees_every_call_answered_right_after_it(messages: list[UIMessage]) -> None:
    seen, waiting = [], []
    for each in to_openai(messages):
        if each["role"] == "tool":
            assert waiting.pop(0) == each["tool_call_id"]
            assert isinstance(each["content"], str)
        else:
            assert waiting == []
            waiting = [call["id"] for call in each.get("tool_calls", [])]
            seen += waiting
    assert (waiting, seen) == ([], asked(messages))


@given(conversations())
def test_a_response_sees_every_call_answered(messages: list[UIMessage]) -> None:
    items = to_openai_responses(messages)
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert called == answered == asked(messages)


@given(conversations())
def test_anthropic_sees_roles_alternate_and_results_first(messages: list[UIMessage]) -> None:
    out = to_anthropic(messages)["messages"]
    assert all(before["role"] != after["role"] for before, after in pairwise(out))
    seen: list[str] = []
    for before, after in pairwise(out):
        called = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"]
        assert results == called
        assert [block["type"] for block in after["content"][: len(results)]] == ["tool_result"] * len(results)
        seen += called
    assert seen == asked(messages)
    assert all(block.get("text") != "" for message in out for block in message["content"])


@given(conversations())
def test_pydantic_ai_sees_every_call_answered(messages: list[UIMessage]) -> None:
    parts: list[Any] = [part for message in to_pydantic_ai(messages) for part in message.parts]
    called = [part.tool_call_id for part in parts if part.part_kind == "tool-call"]
    assert called == [part.tool_call_id for part in parts if part.part_kind == "tool-return"] == asked(messages)


def test_steps_without_parts_are_passed_over() -> None:
    step: Part = {"type": "step-start"}
    text: Part = {"type": "text", "text": "a"}
    assert list(split_steps(UIMessage("m", "assistant", [step, step, text, step]))) == [[text]]


def test_a_part_that_is_no_call_has_none() -> None:
    assert read_tool_call({"type": "text", "text": "x"}) is None


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (None, "null"), ({"a": [1]}, '{"a":[1]}'), ("", "")])
def test_an_output_reads_as_text_or_as_json(value: Any, text: str) -> None:
    assert output_text(value) == text


def test_only_base64_is_read_from_data_urls() -> None:
    inside = read_data_url("data:image/png;base64,aGk=")
    assert inside is not None
    assert (inside.media_type, inside.base64) == ("image/png", "aGk=")
    assert read_data_url("data:,hello") is None
    assert read_data_url("https://example.org/;base64,x") is None
