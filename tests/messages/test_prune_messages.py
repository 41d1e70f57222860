from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.errors import UsageError
from everyword.messages.message import UIMessage
from everyword.messages.model_messages import ModelMessage, convert_to_model_messages
from everyword.messages.prune_messages import prune_messages
from tests.messages.conversations import conversation
from tests.messages.sequences import seeded

Content = dict[str, Any]

THOUGHT: Content = {"type": "reasoning", "text": "hm"}
TEXT: Content = {"type": "text", "text": "It rains."}


def call(call_id: str, name: str) -> Content:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": {}}


def result(call_id: str, name: str) -> Content:
    return {
        "type": "tool-result",
        "toolCallId": call_id,
        "toolName": name,
        "output": {"type": "text", "value": "x"},
    }


ASKED: Content = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
ANSWERED: Content = {"type": "tool-approval-response", "approvalId": "a1", "approved": True}
C1, C2, R1, R2 = call("c1", "weather"), call("c2", "time"), result("c1", "weather"), result("c2", "time")

USER: ModelMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}]}


def assistant(*content: Content) -> ModelMessage:
    return {"role": "assistant", "content": list(content)}


def tool(*content: Content) -> ModelMessage:
    return {"role": "tool", "content": list(content)}


LAST = assistant(THOUGHT, TEXT)
CHAT = [USER, assistant(THOUGHT, C1, C2, ASKED), tool(ANSWERED), tool(R1, R2), LAST]


@pytest.mark.obligation("003-14")
@pytest.mark.parametrize(
    ("reasoning", "kept"),
    [
        ("none", CHAT),
        ("all", [USER, assistant(C1, C2, ASKED), tool(ANSWERED), tool(R1, R2), assistant(TEXT)]),
        ("before-last-message", [USER, assistant(C1, C2, ASKED), tool(ANSWERED), tool(R1, R2), LAST]),
    ],
)
def test_reasoning_is_thinned_as_asked(reasoning: Any, kept: list[ModelMessage]) -> None:
    assert prune_messages(CHAT, reasoning=reasoning) == kept


@pytest.mark.obligation("003-14")
@pytest.mark.parametrize(
    ("tool_calls", "kept"),
    [
        ("none", CHAT),
        ([], CHAT),
        ("all", [USER, LAST]),
        ("before-last-message", [USER, LAST]),
        ("before-last-0-messages", [USER, LAST]),
        ("before-last-2-messages", [USER, assistant(THOUGHT, C1, C2), tool(R1, R2), LAST]),
        ("before-last-3-messages", CHAT),
        ("before-last-99-messages", CHAT),
        ([{"type": "all", "tools": ["weather"]}], [USER, assistant(THOUGHT, C2), tool(R2), LAST]),
        ([{"type": "all", "tools": []}], CHAT),
        ([{"type": "all", "tools": ["weather"]}, {"type": "all", "tools": ["time"]}], [USER, LAST]),
        ([{"type": "before-last-2-messages", "tools": ["time"]}], CHAT),
    ],
)
def test_tool_calls_are_thinned_as_asked(tool_calls: Any, kept: list[ModelMessage]) -> None:
    assert prune_messages(CHAT, tool_calls=tool_calls) == kept


def test_both_options_of_the_guide_work_together() -> None:
    pruned = prune_messages(CHAT, reasoning="before-last-message", tool_calls="before-last-2-messages")
    assert pruned == [USER, assistant(C1, C2), tool(R1, R2), LAST]


def test_an_answer_in_the_spared_messages_keeps_the_call_that_it_lets_run() -> None:
    messages = [USER, assistant(C1, ASKED), tool(ANSWERED)]
    assert prune_messages(messages, tool_calls="before-last-message") == messages


def test_reasoning_goes_with_the_calls_that_it_led_to() -> None:
    other: Content = {"type": "reasoning-file", "mediaType": "image/png", "data": {}}
    chat = [assistant(THOUGHT, other, C1, THOUGHT, TEXT, C2, THOUGHT), USER]
    assert prune_messages(chat, tool_calls="all") == [assistant(THOUGHT, TEXT, THOUGHT), USER]


def test_empty_messages_stay_only_on_request() -> None:
    chat: list[ModelMessage] = [{"role": "system", "content": ""}, assistant(C1), tool(R1)]
    assert prune_messages(chat, tool_calls="all") == []
    assert prune_messages(chat, tool_calls="all", empty_messages="keep") == [chat[0], assistant(), tool()]


def test_plain_text_contents_are_left_alone() -> None:
    chat: list[ModelMessage] = [{"role": "assistant", "content": "yes"}]
    assert prune_messages(chat, reasoning="all", tool_calls="all") == chat


@pytest.mark.parametrize(
    "options",
    [
        {"reasoning": "some"},
        {"empty_messages": "drop"},
        {"tool_calls": "before-last-x-messages"},
        {"tool_calls": "before-last--1-messages"},
        {"tool_calls": [{"type": "none"}]},
    ],
)
def test_unknown_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="unable to prune messages"):
        prune_messages(CHAT, **options)


def test_unconverted_messages_are_refused_with_the_cure() -> None:
    message: Any = UIMessage("m", "user", [{"type": "text", "text": "hi"}])
    for given_message in (message, message.to_dict()):
        with pytest.raises(UsageError, match="convert_to_model_messages"):
            prune_messages([given_message])


@given(seeded())
def test_pruning_never_parts_a_call_from_its_result(rng: Random) -> None:
    messages = convert_to_model_messages([*conversation(rng), *conversation(rng)])
    before = copy.deepcopy(messages)
    kind = rng.choice(["all", "before-last-message", f"before-last-{rng.randrange(6)}-messages"])
    pruned = prune_messages(messages, tool_calls=kind)
    assert messages == before
    for wanted in ("tool-call", "tool-result"):
        left = {part["toolCallId"] for part in content_of(pruned) if part["type"] == wanted}
        kept = {part["toolCallId"] for part in content_of(pruned) if part["type"] in ("tool-call", "tool-result")}
        had = {part["toolCallId"] for part in content_of(messages) if part["type"] == wanted}
        assert left == kept & had
    assert prune_messages(pruned, tool_calls="all") == prune_messages(messages, tool_calls="all")


def content_of(messages: list[ModelMessage]) -> list[Content]:
    return [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
