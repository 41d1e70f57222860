"""A model is told the same of a conversation as by the AI SDK."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from everyword.messages.model_messages import convert_to_model_messages
from tests.messages.conversations import conversation
from tests.oracle.client import Oracle
from tests.oracle.model_messages import OUTPUT_TOOLS, ask_convert, data_as_text, difference

BATCH = 300


def cases(seed: str, *, newer: bool) -> list[dict[str, Any]]:
    rng = Random(seed)
    flags = ("only_complete", "with_data", "with_tools")
    return [
        {"messages": conversation(rng, newer=newer), **{flag: rng.random() < 0.4 for flag in flags}}
        for _ in range(BATCH)
    ]


def ours(case: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(case)
    converted = convert_to_model_messages(
        case["messages"],
        tools=OUTPUT_TOOLS if case["with_tools"] else None,
        ignore_incomplete_tool_calls=case["only_complete"],
        convert_data_part=data_as_text if case["with_data"] else None,
    )
    assert case == before
    return {"messages": converted}


def as_in_ai_6(answer: dict[str, Any]) -> dict[str, Any]:
    """Say the same with the older shapes: bare file URLs, no automatic approvals, no result for a refusal."""
    messages = []
    for message in answer["messages"]:
        content = message["content"]
        if isinstance(content, list):
            content = [older for part in content if (older := older_part(part)) is not None]
        messages.append({**message, "content": content})
    return {"messages": messages}


def older_part(part: dict[str, Any]) -> dict[str, Any] | None:
    if part["type"] == "file":
        return {**part, "data": part["data"]["url"]}
    if part["type"] == "tool-result" and part["output"].get("type") == "execution-denied":
        return None
    return part


def without_old_requests(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what ai 7 leaves out and ai 6 does not: approvals that were pending when the user spoke again."""
    last = max(index for index, message in enumerate(messages) if message["role"] == "user")
    return [
        {**message, "parts": [part for part in message["parts"] if part.get("state") != "approval-requested"]}
        if index < last
        else message
        for index, message in enumerate(messages)
    ]


def test_a_conversation_converts_as_in_ai_7(oracle: Oracle) -> None:
    found = [*cases("convert 7", newer=True), *cases("convert both", newer=False)]
    found_ours, theirs = [ours(case) for case in found], ask_convert(oracle, 7, found)
    assert (different := difference(found, found_ours, theirs)) is None, different


def test_a_conversation_converts_as_in_ai_6_in_newer_shapes(oracle: Oracle) -> None:
    found = cases("convert both", newer=False)
    for case in found:
        case["messages"] = without_old_requests(case["messages"])
    found_ours, theirs = [as_in_ai_6(ours(case)) for case in found], ask_convert(oracle, 6, found)
    assert (different := difference(found, found_ours, theirs)) is None, different


def test_the_batches_reach_every_shape() -> None:
    shapes: set[str] = set()
    for case in cases("convert 7", newer=True):
        for message in ours(case)["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else []:
                shapes |= {f"{message['role']} {part['type']}"}
                shapes |= {f"{message['role']} {part['output']['type']}"} if part["type"] == "tool-result" else set()
    assert shapes == {
        *("user text", "user file", "assistant text", "assistant file", "assistant reasoning"),
        *("assistant reasoning-file", "assistant custom", "assistant tool-call", "assistant tool-result"),
        *("assistant tool-approval-request", "tool tool-approval-response", "tool tool-result"),
        *("assistant text", "assistant json", "assistant error-json"),
        *("tool text", "tool json", "tool error-text", "tool execution-denied"),
    }
