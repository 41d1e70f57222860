from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.messages.fold import MessageFold
from everyword.messages.message import Part, UIMessage
from everyword.messages.tool_calls import (
    ApprovalAnswer,
    CallAnswer,
    ErrorAnswer,
    OutputAnswer,
    answer_chunks,
    find_call,
    is_mid_batch,
    open_calls,
    settle,
    tool_name,
    tool_parts,
)
from tests.messages.sequences import json_value, legal_sequence, seeded

STEP: Part = {"type": "step-start"}


def call(call_id: str = "c", state: str = "input-available", **fields: Any) -> Part:
    return {"type": "tool-x", "toolCallId": call_id, "state": state, "input": {}, **fields}


def message(*parts: Part) -> UIMessage:
    return UIMessage("m", "assistant", list(parts))


def settled_part(part: Part, answer: CallAnswer) -> Part | None:
    settled = settle(message(STEP, part), part["toolCallId"], answer)
    return None if settled is None else settled.parts[1]


def test_tool_parts_are_static_or_dynamic_calls() -> None:
    dynamic = {"type": "dynamic-tool", "toolName": "y", "toolCallId": "d", "state": "input-available"}
    found = list(tool_parts(message(STEP, call(), {"type": "text", "text": "a"}, dynamic)))
    assert found == [call(), dynamic]
    assert [tool_name(part) for part in found] == ["x", "y"]
    assert tool_name({"type": "tool-get-weather"}) == "get-weather"


def test_a_call_announced_twice_is_found_where_an_answer_belongs() -> None:
    old, new, elsewhere = call(input=1), call(input=2), call("other")
    assert find_call(message(STEP, old, STEP, new), "c") is new
    assert find_call(message(STEP, old, STEP, new, STEP, elsewhere), "c") is new
    assert find_call(message(old), "nobody") is None


@pytest.mark.parametrize(
    ("part", "is_open"),
    [
        (call(), True),
        (call(providerExecuted=True), False),
        (call(state="approval-requested", providerExecuted=True), True),
        (call(state="input-streaming"), False),
        (call(state="approval-responded"), False),
        (call(state="output-available"), False),
        (call(state="output-error"), False),
        (call(state="output-denied"), False),
    ],
)
def test_a_call_is_open_while_it_waits_for_an_answer(part: Part, is_open: bool) -> None:
    assert (open_calls(message(part)) == [part]) is is_open


def test_a_batch_is_half_answered_when_its_step_has_both_kinds() -> None:
    done, waiting = call("a", "output-available"), call("b")
    assert is_mid_batch(message(STEP, done, waiting))
    assert is_mid_batch(message(STEP, call("a", "approval-responded"), call("b", "approval-requested")))
    assert not is_mid_batch(message(STEP, done))
    assert not is_mid_batch(message(STEP, waiting))
    assert not is_mid_batch(message(STEP, done, STEP, waiting))
    assert not is_mid_batch(message())


@pytest.mark.parametrize("state", ["input-available", "approval-requested", "approval-responded"])
def test_a_result_ends_a_call_that_waits(state: str) -> None:
    part = call(state=state, preliminary=True, rawInput="{}", errorText="old")
    assert settled_part(part, OutputAnswer({"r": 1})) == call(state="output-available", output={"r": 1})
    failed = call(state="output-error", errorText="no", rawInput="{}")
    assert settled_part(part, ErrorAnswer("no")) == failed


@pytest.mark.parametrize("state", ["input-streaming", "output-available", "output-error", "output-denied"])
def test_the_first_answer_wins(state: str) -> None:
    for answer in (OutputAnswer(1), ErrorAnswer("no"), ApprovalAnswer(True), ApprovalAnswer(False)):
        assert settled_part(call(state=state), answer) is None


def test_a_denied_call_never_gets_an_output() -> None:
    denied = settle(message(STEP, call(state="approval-requested", approval={"id": "a"})), "c", ApprovalAnswer(False))
    assert denied is not None
    assert denied.parts[1]["approval"] == {"id": "a", "approved": False}
    assert settle(denied, "c", OutputAnswer(1)) is None
    refused = call(state="approval-responded", approval={"id": "a", "approved": False})
    assert settled_part(refused, OutputAnswer(1)) is None
    assert settled_part(refused, ErrorAnswer("no")) is None


def test_an_approval_is_noted_with_its_reason_and_keeps_what_was_known() -> None:
    asked = call(state="approval-requested", approval={"id": "a", "descriptor": {"d": 1}})
    assert settled_part(asked, ApprovalAnswer(True, "fine")) == call(
        state="approval-responded",
        approval={"id": "a", "descriptor": {"d": 1}, "approved": True, "reason": "fine"},
    )


def test_an_approval_that_was_never_asked_for_goes_by_the_calls_id() -> None:
    denied = call(state="output-denied", approval={"id": "c", "approved": False})
    assert settled_part(call(), ApprovalAnswer(False)) == denied
    assert settled_part(call(state="approval-responded"), ApprovalAnswer(True)) is None


def test_settling_an_unknown_call_changes_nothing_and_settling_copies() -> None:
    before = message(STEP, call())
    assert settle(before, "nobody", OutputAnswer(1)) is None
    assert settle(before, "c", OutputAnswer(1)) != before
    assert before == message(STEP, call())


def test_answers_are_told_in_chunks_except_an_approval() -> None:
    assert answer_chunks("c", OutputAnswer(None)) == [
        {"type": "tool-output-available", "toolCallId": "c", "output": None}
    ]
    assert answer_chunks("c", ErrorAnswer("no")) == [
        {"type": "tool-output-error", "toolCallId": "c", "errorText": "no"}
    ]
    assert answer_chunks("c", ApprovalAnswer(False)) == [{"type": "tool-output-denied", "toolCallId": "c"}]
    assert answer_chunks("c", ApprovalAnswer(True)) == []


@given(seeded())
def test_an_answers_chunks_say_what_settling_does(rng: Random) -> None:
    fold = MessageFold("m1")
    for chunk in legal_sequence(rng):
        fold.apply(chunk)
    answers: list[CallAnswer] = [
        OutputAnswer(json_value(rng)),
        ErrorAnswer("no"),
        ApprovalAnswer(False),
        ApprovalAnswer(True),
    ]
    answer = rng.choice(answers)
    for part in fold.message().parts:
        settled = settle(fold.message(), part["toolCallId"], answer) if "toolCallId" in part else None
        if settled is None:
            continue
        told = MessageFold("m1", base=fold.message())
        for chunk in answer_chunks(part["toolCallId"], answer):
            told.apply(chunk)
        if not isinstance(answer, ApprovalAnswer):
            assert told.message() == settled
        # The chunk of a denial does not carry who said no; the answer itself does.
        assert fold.answer(part["toolCallId"], answer)
        assert fold.message() == settled
        for chunk in answer_chunks(part["toolCallId"], answer):
            fold.apply(chunk)
        assert fold.message() == settled
