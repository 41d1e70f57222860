"""Stored parts of any shape: what cannot be read is passed over, by every reader alike."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.codec.encode import encode_message
from everyword.messages.fold import MessageFold
from everyword.messages.lazy_messages import LazyMessages
from everyword.messages.message import Part, UIMessage
from everyword.messages.normaliser import Normaliser
from everyword.messages.readable_parts import is_readable, keep_readable_parts, unreadable_parts
from everyword.messages.repair_tool_calls import repair_calls
from everyword.messages.tool_calls import (
    ApprovalAnswer,
    ErrorAnswer,
    OutputAnswer,
    is_mid_batch,
    is_tool_part,
    open_calls,
    settle,
    tool_parts,
)
from tests.messages.near_misses import NEAR_MISSES
from tests.messages.test_part_schemas import ACCEPTED

TEXT = {"type": "text", "text": "hi"}
CALL = {"type": "tool-x", "toolCallId": "c", "state": "input-available", "input": {}}


@pytest.mark.parametrize("part", ACCEPTED)
def test_every_legal_part_is_readable(part: Part) -> None:
    assert is_readable(part)


@pytest.mark.parametrize(
    "change",
    [
        {"toolCallId": 5},
        {"toolCallId": None},
        {"state": []},
        {"state": None},
        {"approval": 5},
        {"approval": []},
        {"approval": {"id": 5}},
        {"approval": {"id": "a", "approved": "yes"}},
        {"approval": {"id": "a", "reason": {}}},
        {"type": "dynamic-tool"},
        {"type": "dynamic-tool", "toolName": 5},
    ],
)
def test_a_tool_part_with_impossible_types_is_no_call(change: dict[str, Any]) -> None:
    part = {**CALL, **change}
    message = UIMessage("m", "assistant", [part, TEXT])
    assert not is_tool_part(part) and not is_readable(part)
    assert list(tool_parts(message)) == open_calls(message) == []
    assert all(
        settle(message, "c", answer) is None for answer in (OutputAnswer(1), ErrorAnswer("no"), ApprovalAnswer(True))
    )


@pytest.mark.parametrize("part", NEAR_MISSES)
def test_no_reader_fails_on_a_near_miss(part: Part) -> None:
    message = UIMessage.from_dict({"id": "m", "role": "assistant", "parts": [TEXT, part, CALL]})
    assert message.text.startswith("hi")
    for answer in (OutputAnswer(1), ErrorAnswer("no"), ApprovalAnswer(True), ApprovalAnswer(False)):
        settle(message, "c", answer)
    is_mid_batch(message)
    assert len(repair_calls([message], answerable=lambda part: False)) == 1
    fold = MessageFold("m", base=message)
    for chunk in Normaliser("m", base=message, first_attempt=False).text("more"):
        fold.apply(chunk)
    assert fold.message().text.endswith("more")
    for is_replay in (True, False):
        assert encode_message(message, is_replay=is_replay)[-1] == {"type": "finish"}


def test_a_history_leaves_unreadable_parts_out_and_names_them() -> None:
    broken = {**CALL, "approval": 5}
    bodies = [UIMessage("u1", "user", [TEXT]).encode(), UIMessage("m1", "assistant", [broken, TEXT]).encode()]
    history = LazyMessages(bodies, UIMessage("m2", "assistant", [{"type": "text", "text": 5}]))
    assert history.skipped == []
    assert [message.parts for message in history] == [[TEXT], [TEXT], []]
    assert history.skipped == ["part 0 (tool-x) of message 'm1'", "part 0 (text) of message 'm2'"]


def test_a_message_that_can_be_read_is_not_copied() -> None:
    message = UIMessage("m", "assistant", [TEXT, CALL])
    assert keep_readable_parts(message) is message and unreadable_parts(message) == []


def test_the_text_of_a_message_passes_over_what_is_none() -> None:
    parts = [TEXT, {"type": "text", "text": 5}, {"type": "text"}, {"type": "text", "text": None}, TEXT]
    assert UIMessage("m", "user", parts).text == "hihi"
