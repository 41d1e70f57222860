from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given

from everyword.errors import BadChunk
from everyword.messages import chunks as c
from tests.messages.sequences import Chunk, legal_sequence, seeded


def written(chunk: Any, **how: bool) -> Any:
    return json.loads(c.encode_chunk(chunk, **how))


def test_a_typed_chunk_is_the_dict_that_it_stands_for() -> None:
    typed = c.ToolInputAvailable(tool_call_id="c", tool_name="x", input={"a": None}, dynamic=True)
    raw = {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {"a": None}, "dynamic": True}
    assert c.as_chunk(typed) == raw
    assert written(typed) == written(raw) == raw


def test_every_type_of_the_table_has_a_struct_of_its_own() -> None:
    assert len(c.CHUNK_TYPES) == 29
    assert {struct.__struct_config__.tag for struct in c.CHUNK_TYPES.values()} == set(c.CHUNK_TYPES)
    assert set(c.CHUNK_TYPES) >= c.NEWER_TYPES | set(c.NULLABLE) | set(c.NEWER_FIELDS)


@pytest.mark.parametrize(
    ("chunk", "sent"),
    [
        ({"type": "start", "messageId": None, "messageMetadata": None}, {"type": "start"}),
        ({"type": "text-start", "id": "a", "providerMetadata": None}, {"type": "text-start", "id": "a"}),
        ({"type": "data-x", "id": None, "transient": None}, {"type": "data-x", "data": None}),
        (
            {"type": "tool-output-available", "toolCallId": "c"},
            {"type": "tool-output-available", "toolCallId": "c", "output": None},
        ),
        (
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "x"},
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": None},
        ),
    ],
)
def test_null_is_dropped_where_clients_reject_it_and_sent_where_they_want_it(chunk: Chunk, sent: Chunk) -> None:
    assert written(chunk) == sent


def test_an_approvals_null_input_is_not_the_same_as_none() -> None:
    request = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"}
    assert written({**request, "inputSchemaInput": None}) == {**request, "inputSchemaInput": None}
    assert written(request) == request


def test_unknown_fields_are_kept_for_newer_clients_only() -> None:
    chunk = {"type": "text-end", "id": "a", "citations": [], "sparkle": 1}
    assert written(chunk) == {"type": "text-end", "id": "a"}
    assert written(chunk, newer=True) == chunk
    assert written({"type": "hologram", "x": 1}, newer=True) == {"type": "hologram", "x": 1}


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"type": 7},
        {"type": "hologram"},
        {"type": "custom", "kind": "a.b"},
        {"type": "reset-step"},
        {"type": "finish", "finishReason": "interrupted"},
        {"type": "finish", "finishReason": "unknown"},
        {"type": "text-delta", "id": "a"},
        {"type": "text-delta", "id": "a", "delta": None},
        {"type": "text-delta", "id": 1, "delta": "x"},
        {"type": "file", "url": "https://example.org"},
        {"type": "message-metadata"},
        {"type": "message-metadata", "messageMetadata": None},
        {"type": "text-start", "id": "a", "providerMetadata": {"p": 1}},
        {"type": "data-x", "data": object()},
    ],
)
def test_what_a_client_of_ai_6_rejects_is_refused_with_a_sentence(chunk: Chunk) -> None:
    with pytest.raises(BadChunk, match="unable to send"):
        c.encode_chunk(chunk)


def test_newer_clients_get_what_they_know() -> None:
    assert written(c.FinishChunk(finish_reason="interrupted"), newer=True)["finishReason"] == "interrupted"
    assert written(c.CustomChunk(kind="a.b"), newer=True) == {"type": "custom", "kind": "a.b"}
    steering = c.SteeringMessage(id="u", parts=[c.SteeringText("left")])
    assert written(steering, newer=True)["parts"] == [{"type": "text", "text": "left"}]


@pytest.mark.parametrize("value", [None, 3, "text", ["x"], msgspec.UNSET])
def test_what_is_no_chunk_is_refused(value: Any) -> None:
    with pytest.raises(BadChunk, match="yield a dict"):
        c.as_chunk(value)


@given(seeded())
def test_legal_chunks_are_written_as_they_are(rng: Random) -> None:
    sequence = legal_sequence(rng)
    assert [written(chunk) for chunk in sequence] == sequence
    newer = legal_sequence(rng, newer=True)
    assert [written(chunk, newer=True) for chunk in newer] == newer


def test_the_type_comes_first_in_the_text() -> None:
    assert c.encode_chunk({"id": "a", "delta": "x", "type": "text-delta"}) == (
        b'{"type":"text-delta","id":"a","delta":"x"}'
    )
    assert c.encode_chunk({"id": "a", "type": "text-start"}).startswith(b'{"type":')


def test_half_a_character_is_replaced_on_the_way_out() -> None:
    assert written({"type": "text-delta", "id": "a", "delta": "\ud83d"})["delta"] == "\ufffd"
    assert written({"type": "data-x", "data": {"a": "\ud83d"}})["data"] == {"a": "\ufffd"}
