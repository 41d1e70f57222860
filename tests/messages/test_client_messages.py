"""Which messages of a client may be stored: what honest clients send, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.errors import BadMessage
from everyword.messages.client_messages import RESERVED, check_client_message, read_client_messages
from everyword.messages.message import Part
from everyword.models.pydantic_ai_parts import DATA_PART_TYPE
from tests.messages.test_part_schemas import ACCEPTED

TEXT = {"type": "text", "text": "hi"}
FILE = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="}

HONEST: list[Part] = [
    TEXT,
    {"type": "text", "text": ""},
    {**TEXT, "state": "done"},
    {**TEXT, "providerMetadata": {"openai": {"imageDetail": "low"}}},
    {**TEXT, "providerOptions": {"openai": {"imageDetail": "low"}}},
    FILE,
    {**FILE, "filename": "cat.png"},
    {**FILE, "url": "/uploads/cat.png", "providerMetadata": {"openai": {"imageDetail": "low"}}},
    {**FILE, "providerReference": {"openai": "file-1"}},
    {"type": "data-place", "data": {"lat": 1}},
    {"type": "data-place", "id": "p1", "data": None},
    {"type": "data-mark"},
    {"type": "data-place", "data": 1, "custom": [1]},
]


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"id": "u1", "role": "user", "parts": list(parts), **more}


@pytest.mark.parametrize("part", HONEST)
def test_what_honest_clients_send_is_accepted(part: Part) -> None:
    check_client_message(message(part))
    check_client_message(message(TEXT, part, metadata={"at": 1}, createdAt="today"))


def test_a_message_without_parts_is_accepted() -> None:
    check_client_message(message())


@pytest.mark.parametrize("part", [part for part in ACCEPTED if part["type"] not in ("text", "file", "data-")])
def test_a_part_that_a_user_cannot_have_is_refused_by_name(part: Part) -> None:
    with pytest.raises(BadMessage, match=rf"message 'u1'; .* no part of type '{part['type']}' \(part 1\)"):
        check_client_message(message(TEXT, part))


@pytest.mark.parametrize(
    "part",
    [
        5,
        None,
        [],
        {},
        {"type": 5},
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "text", "text": "", "state": "resting"},
        {"type": "text", "text": "", "providerMetadata": 5},
        {"type": "file", "url": "u"},
        {"type": "file", "mediaType": "a/b", "url": None},
        {**FILE, "filename": 5},
        {"type": "data-x", "id": 5, "data": 1},
    ],
)
def test_a_part_of_another_shape_is_refused_with_its_place(part: Any) -> None:
    with pytest.raises(BadMessage, match=r"unable to take message 'u1'; .* \(part 1\)$"):
        check_client_message(message(TEXT, part))


def test_a_data_part_that_only_the_server_writes_is_refused() -> None:
    assert DATA_PART_TYPE in RESERVED
    with pytest.raises(BadMessage, match="only the server may write"):
        check_client_message(message({"type": DATA_PART_TYPE, "data": {"kind": "request", "parts": []}}))


@pytest.mark.parametrize("letter", ["x", "é", "語", "🦊"])
def test_a_message_id_has_at_most_512_bytes(letter: str) -> None:
    fits = letter * (512 // len(letter.encode()))
    check_client_message({**message(TEXT), "id": fits})
    with pytest.raises(BadMessage, match=r"its id has 51\d bytes, and 512 is the limit"):
        check_client_message({**message(TEXT), "id": fits + letter})


def test_the_text_of_a_refusal_does_not_repeat_an_id_that_is_too_long() -> None:
    with pytest.raises(BadMessage) as refused:
        check_client_message({**message(TEXT), "id": "x" * 1_000_000})
    assert len(str(refused.value)) < 700


def test_reading_leaves_the_parts_as_they_came() -> None:
    odd = [message(5, {"type": 5}, TEXT), message(None, metadata=None)]
    read, problem = read_client_messages(odd)
    assert problem is None
    assert [each["parts"] for each in read] == [[5, {"type": 5}, TEXT], [None]]
