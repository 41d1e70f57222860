from __future__ import annotations

from typing import Any

import pytest

from everyword.messages.message import Chunk, Part
from everyword.messages.tool_call_tracker import ToolCallTracker


def tool(kind: str, **fields: Any) -> Chunk:
    return {"type": f"tool-{kind}", "toolCallId": "c", **fields}


def ledger() -> ToolCallTracker:
    return ToolCallTracker([], last_step_is_open=False)


START = tool("input-start", toolName="x")
PIECE = tool("input-delta", inputTextDelta="{")
WHOLE = tool("input-available", toolName="x", input={})


def test_an_input_grows_in_the_step_that_announced_it_only() -> None:
    calls = ledger()
    assert calls.start_input(dict(START), 1) == [START]
    assert calls.grow_input(PIECE, 1) == [PIECE]
    assert calls.grow_input(PIECE, 2) == []
    assert calls.end_input(dict(WHOLE), 2) == [WHOLE]
    assert calls.grow_input(PIECE, 1) == []


def test_an_input_may_be_begun_again_while_it_is_unfinished() -> None:
    calls = ledger()
    calls.start_input(dict(START), 1)
    assert calls.start_input({**START, "dynamic": True}, 1) == [START]
    assert calls.start_input({**START, "dynamic": True}, 2) == [{**START, "dynamic": True}]
    calls.end_input({**WHOLE, "dynamic": True}, 2)
    assert calls.start_input(dict(START), 2) == []


def test_a_name_is_known_once_the_call_is_announced() -> None:
    calls = ledger()
    assert calls.name_of("c") is None
    assert calls.name_of(["c"]) is None
    calls.end_input(dict(WHOLE), 1)
    assert calls.name_of("c") == "x"


def test_a_request_of_the_base_is_repeated_with_all_that_it_said() -> None:
    part: Part = {"type": "tool-x", "toolCallId": "c", "state": "approval-requested", "rawInput": "{"}
    part["approval"] = {"id": "a", "descriptor": {"d": 1}, "signature": "s", "requestReason": "why"}
    calls = ToolCallTracker([part], last_step_is_open=True)
    request = tool("approval-request", approvalId="a", approvalDescriptor={"d": 1}, signature="s", reason="why")
    assert calls.end_input(dict(WHOLE), 0) == [WHOLE, request]


def test_a_response_goes_to_a_call_that_asked() -> None:
    calls = ledger()
    calls.end_input(dict(WHOLE), 1)
    response = {"type": "tool-approval-response", "approvalId": "a", "approved": False}
    assert calls.respond_approval(response) == []
    calls.request_approval(tool("approval-request", approvalId="a"))
    assert calls.respond_approval(response) == [response]
    assert calls.respond_approval(response) == []
    assert calls.output(tool("output-available", output=1)) == []
    assert calls.deny(tool("output-denied")) == [tool("output-denied")]


@pytest.mark.parametrize("step", [1, 2])
def test_only_the_calls_of_a_step_that_was_taken_back_are_forgotten(step: int) -> None:
    calls = ledger()
    calls.end_input(dict(WHOLE), 1)
    calls.forget_step(step)
    assert (calls.output(tool("output-available", output=1)) == []) is (step == 1)
