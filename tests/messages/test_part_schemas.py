from __future__ import annotations

from typing import Any

import msgspec
import pytest

from everyword.messages.message import Part
from everyword.messages.part_schemas import checked_part


def call(state: str, **fields: Any) -> Part:
    return {"type": "tool-x", "toolCallId": "c", "state": state, "input": 1, **fields}


GRANTED = {"id": "a", "approved": True}
DENIED = {"id": "a", "approved": False, "reason": "no"}
FILE = {"type": "file", "mediaType": "a/b", "url": "u"}

ACCEPTED: list[Part] = [
    {"type": "text", "text": "", "state": "streaming", "providerMetadata": {"a": {"b": None}}},
    {"type": "reasoning", "text": "hm", "id": "r"},
    {"type": "custom", "kind": "a.b"},
    {"type": "source-url", "sourceId": "s", "url": "u"},
    {"type": "source-document", "sourceId": "s", "mediaType": "a/b", "title": "t"},
    {**FILE, "providerReference": {"acme": "f"}},
    {"type": "reasoning-file", "mediaType": "a/b", "url": "u"},
    {"type": "steering-message", "id": "u", "parts": [{"type": "text", "text": "left"}, FILE]},
    {"type": "step-start"},
    {"type": "data-", "data": None},
    {"type": "tool-x", "toolCallId": "c", "state": "input-streaming", "rawInput": "{", "inputEncoding": "json"},
    call("input-available", title="T", toolMetadata={}, providerExecuted=False),
    call("approval-requested", approval={"id": "a", "descriptor": None, "requestReason": "r", "isAutomatic": True}),
    call("approval-responded", approval=GRANTED),
    call("approval-responded", approval=DENIED),
    call("output-available", output=None, preliminary=True, approval=GRANTED, resultProviderMetadata={}),
    {"type": "tool-x", "toolCallId": "c", "state": "output-error", "errorText": "e", "rawInput": [1]},
    call("output-denied", approval=DENIED),
]


@pytest.mark.parametrize("part", ACCEPTED)
def test_a_legal_part_is_accepted_as_it_is(part: Part) -> None:
    assert checked_part(part) == part
    if "toolCallId" in part:
        dynamic = {**part, "type": "dynamic-tool", "toolName": "x", "dynamic": False}
        assert checked_part(dynamic) == dynamic


@pytest.mark.parametrize("part", ACCEPTED)
def test_unknown_fields_are_dropped(part: Part) -> None:
    assert checked_part({**part, "unknown": 1}) == part


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "text", "text": "", "state": "resting"},
        {"type": "text", "text": "", "state": None},
        {"type": "text", "text": "", "providerMetadata": {"a": 1}},
        {"type": "text", "text": "", "citations": [{"source": {"sourceType": "book"}}]},
        {"type": "data-x"},
        {"type": "steering-message", "id": "u", "parts": [{"type": "step-start"}]},
        {**FILE, "providerReference": {"acme": 1}},
        {"type": "tool-x", "toolCallId": "c", "state": "input-available"},
        call("input-streaming", output=None),
        call("input-available", approval=GRANTED),
        call("approval-requested"),
        call("approval-requested", approval=GRANTED),
        call("approval-responded", approval={"id": "a"}),
        call("output-available"),
        call("output-available", output=1, approval={"id": "a"}),
        call("output-available", output=1, approval=DENIED),
        call("output-available", output=1, errorText="e"),
        call("output-error"),
        call("output-error", errorText="e", approval=DENIED),
        call("output-denied", approval=GRANTED),
        {**call("input-available"), "type": "dynamic-tool"},
        {**call("input-available"), "type": "dynamic-tool", "toolName": "x", "dynamic": True},
        call([]),  # type: ignore[arg-type]
        {"type": "message"},
        {"text": "x"},
        "text",
    ],
)
def test_an_illegal_part_is_refused(part: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        checked_part(part)


@pytest.mark.parametrize(("index", "is_legal"), [(0, True), (3.0, True), (-1, False), (1.5, False), (2**53, False)])
def test_a_citation_points_at_whole_characters(index: Any, is_legal: bool) -> None:
    source = {"type": "source", "sourceType": "document", "id": "s", "mediaType": "a/b", "title": "t"}
    part = {"type": "text", "text": "a", "citations": [{"source": source, "startIndex": index}]}
    if is_legal:
        assert checked_part(part) == part
    else:
        with pytest.raises(msgspec.ValidationError):
            checked_part(part)
