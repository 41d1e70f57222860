from __future__ import annotations

import copy
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.errors import BadMessage
from everyword.messages.message import Part, UIMessage
from everyword.messages.model_messages import convert_to_model_messages
from everyword.messages.repair_tool_calls import INTERRUPTED, NOT_ANSWERED, repair_calls
from everyword.messages.tool_calls import is_tool_part
from everyword.messages.validate_messages import safe_validate_ui_messages, validate_ui_messages
from tests.messages.conversations import STATES, conversation
from tests.messages.sequences import seeded


def call(state: str, **fields: Any) -> Part:
    return {"type": "tool-x", "toolCallId": "c", "state": state, "input": {"a": 1}, **fields}


def repaired(part: Part) -> Part:
    return repair_calls([UIMessage("m", "assistant", [part])], answerable=not_answerable)[0].parts[0]


def not_answerable(part: Part) -> bool:
    return False


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (call("input-available"), call("output-error", errorText=INTERRUPTED)),
        (call("input-streaming", rawInput='{"a":1', inputEncoding="json"), call("output-error", errorText=INTERRUPTED)),
        (
            {"type": "tool-x", "toolCallId": "c", "state": "input-streaming", "rawInput": ""},
            call("output-error", errorText=INTERRUPTED, input={}),
        ),
        (call("approval-requested", approval={"id": "a"}), call("output-error", errorText=NOT_ANSWERED)),
        (
            call("approval-responded", approval={"id": "a", "approved": True}),
            call("output-error", errorText=INTERRUPTED, approval={"id": "a", "approved": True}),
        ),
    ],
)
def test_a_call_without_an_outcome_fails_with_a_sentence_for_the_model(part: Part, expected: Part) -> None:
    assert repaired(part) == expected
    assert validate_ui_messages([{"id": "m", "role": "assistant", "parts": [repaired(part)]}])


@pytest.mark.parametrize(
    "part",
    [
        call("output-available", output=None),
        call("output-available", output=1, preliminary=True),
        call("output-error", errorText="it broke"),
        call("output-denied", approval={"id": "a", "approved": False}),
        call("approval-responded", approval={"id": "a", "approved": False}),
        {"type": "text", "text": "hi", "state": "streaming"},
        {"type": "data-x", "state": "input-available", "data": 1},
    ],
)
def test_what_has_an_outcome_is_left_alone(part: Part) -> None:
    message = UIMessage("m", "assistant", [part])
    assert repair_calls([message], answerable=not_answerable)[0] is message


def test_a_call_that_can_still_be_answered_stays_open() -> None:
    mine, lost = call("input-available"), call("input-available", toolCallId="lost")
    message = UIMessage("m", "assistant", [mine, lost])
    parts = repair_calls([message], answerable=lambda part: part["toolCallId"] == "c")[0].parts
    assert [part["state"] for part in parts] == ["input-available", "output-error"]
    assert message.parts == [mine, lost]


def test_messages_may_be_dicts_and_must_be_messages() -> None:
    raw = {"id": "m", "role": "assistant", "parts": [call("input-available")], "createdAt": 5}
    assert repair_calls([raw], answerable=not_answerable)[0].extra == {"createdAt": 5}
    with pytest.raises(BadMessage):
        repair_calls([{"role": "user"}], answerable=not_answerable)


@given(seeded())
def test_a_model_never_sees_a_call_without_a_result(rng: Random) -> None:
    raw = conversation(rng)
    before = copy.deepcopy(raw)
    messages = repair_calls(raw, answerable=not_answerable)
    assert raw == before
    assert repair_calls(messages, answerable=not_answerable) == messages
    content = [
        part for each in convert_to_model_messages(messages) if each["role"] != "system" for part in each["content"]
    ]
    calls = Counter(part["toolCallId"] for part in content if part["type"] == "tool-call")
    results = Counter(part["toolCallId"] for part in content if part["type"] == "tool-result")
    # The provider knows that a call of its own was refused: it gets the answer only.
    refused = Counter(
        part["toolCallId"]
        for message in messages
        for part in message.parts
        if is_tool_part(part) and part["state"] == "output-denied" and part.get("providerExecuted")
    )
    assert calls == results + refused


@given(seeded())
def test_repair_asks_only_about_calls_without_an_outcome_and_keeps_messages_valid(rng: Random) -> None:
    raw, asked = conversation(rng), []

    def answerable(part: Part) -> bool:
        asked.append(part["state"])
        return rng.random() < 0.5

    is_valid = safe_validate_ui_messages(raw).error is None
    messages = repair_calls(raw, answerable=answerable)
    assert set(asked) <= set(STATES[:4])
    assert (safe_validate_ui_messages(messages).error is None) or not is_valid
