from __future__ import annotations

import json
from typing import Any

import pytest

from everyword.errors import BadMessage
from everyword.messages.message import UIMessage

RAW: dict[str, Any] = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


def test_a_message_goes_through_json_unchanged() -> None:
    raw = {**RAW, "metadata": {"a": [1, None]}, "createdAt": "2026", "parts": [{"type": "hologram", "x": {}}]}
    message = UIMessage.from_dict(raw)
    assert message.to_dict() == raw
    assert UIMessage.decode(message.encode()) == message
    assert UIMessage.decode(message.encode().decode()) == message


def test_absent_metadata_is_not_written() -> None:
    assert UIMessage.from_dict({**RAW, "metadata": None}).to_dict() == RAW


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (None, "null, not an object"),
        ([], "list, not an object"),
        ({**RAW, "id": ""}, "id must be"),
        ({**RAW, "id": 7}, "id must be"),
        ({**RAW, "role": "tool"}, "'m'; its role"),
        ({**RAW, "role": ["user"]}, "'m'; its role"),
        ({**RAW, "parts": {}}, "'m'; its parts"),
        ({"id": "m", "role": "user"}, "'m'; its parts"),
    ],
)
def test_a_message_that_cannot_be_used_says_why(raw: Any, says: str) -> None:
    with pytest.raises(BadMessage, match="unable to read") as caught:
        UIMessage.from_dict(raw)
    assert says in str(caught.value)


@pytest.mark.parametrize("body", [b"{", b"\xff", "[" * 100_000, b"7", b"null"])
def test_text_that_is_no_message_is_refused(body: bytes | str) -> None:
    with pytest.raises(BadMessage, match="unable to read a message"):
        UIMessage.decode(body)


def test_parts_without_a_type_are_left_out() -> None:
    message = UIMessage.from_dict({**RAW, "parts": [None, 3, {}, {"type": 1}, {"type": "text", "text": "a"}]})
    assert message.parts == [{"type": "text", "text": "a"}]


def test_an_old_message_with_content_only_gets_a_text_part() -> None:
    message = UIMessage.from_dict({"id": "m", "role": "user", "content": "hi"})
    assert message.to_dict() == RAW


def test_text_joins_the_text_parts_only() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "reasoning", "text": "no"}, {"type": "text", "text": "b"}]
    assert UIMessage("m", "assistant", [*parts, {"type": "text"}]).text == "ab"


def test_two_messages_do_not_share_their_defaults() -> None:
    one, two = UIMessage("1", "user"), UIMessage("2", "user")
    one.parts.append({"type": "step-start"})
    assert two.parts == []


def test_half_a_character_does_not_stop_a_message_from_being_written() -> None:
    message = UIMessage("m", "user", [{"type": "text", "text": "a\ud83d"}])
    assert UIMessage.decode(message.encode()).text == "a\ufffd"


@pytest.mark.parametrize(
    "raw",
    [
        RAW,
        {**RAW, "metadata": None},
        {**RAW, "metadata": {"deep": [1, {"a": None}]}},
        {**RAW, "createdAt": "2026"},
        {**RAW, "parts": []},
        {**RAW, "parts": [{"type": "text", "text": "a"}, {"text": "without a type"}, {"type": 7}, "nonsense", None]},
        {**RAW, "parts": None, "content": "old"},
        {**RAW, "content": "beside parts"},
        {**RAW, "id": ""},
        {**RAW, "id": 7},
        {**RAW, "role": "tool"},
        {**RAW, "parts": {}},
        [],
        None,
    ],
)
def test_reading_from_text_is_reading_from_its_object(raw: Any) -> None:
    def read(by: Any, given: Any) -> Any:
        try:
            return by(given)
        except BadMessage as exc:
            return str(exc)

    assert read(UIMessage.decode, json.dumps(raw).encode()) == read(UIMessage.from_dict, raw)
