from __future__ import annotations

from typing import Any

import pytest

from everyword.client.protocol.message_list import MessageList, answer_to
from everyword.messages.message import UIMessage


def message(message_id: str, text: str = "", role: str = "assistant") -> dict[str, Any]:
    return {"id": message_id, "role": role, "parts": [{"type": "text", "text": text}]}


def texts(shown: MessageList) -> list[tuple[str, str]]:
    return [(each["id"], each["parts"][0]["text"]) for each in shown.messages]


def test_a_message_replaces_the_one_of_its_id() -> None:
    shown = MessageList()
    shown.put(message("a", "one"))
    shown.put(message("b", "two"))
    shown.put(message("a", "three"))
    shown.put(message("c", "four"), only_known=True)
    assert texts(shown) == [("a", "three"), ("b", "two")]


def test_a_streamed_message_does_not_replace_one_with_more_of_its_text() -> None:
    shown = MessageList()
    shown.put(message("a", "Hello you"))
    shown.put_streamed(UIMessage.from_dict(message("a", "Hello")))
    assert texts(shown) == [("a", "Hello you")]
    shown.put_streamed(UIMessage.from_dict(message("a", "Hello you two")))
    assert texts(shown) == [("a", "Hello you two")]


def test_a_question_that_no_transcript_has_is_dropped_at_its_end() -> None:
    shown = MessageList()
    shown.replace([message("a")], [message("a"), message("u", role="user")])
    assert [each["id"] for each in shown.messages] == ["a", "u"]
    shown.drop_unaccepted("a")
    shown.drop_unaccepted("u")
    assert [each["id"] for each in shown.messages] == ["a"]


def test_adopted_messages_come_first_and_do_not_replace_shown_ones() -> None:
    shown = MessageList()
    shown.messages = [message("b", "shown"), message("c", "shown")]
    shown.adopt([message("a", "stored"), message("b", "stored")])
    assert texts(shown) == [("a", "stored"), ("b", "shown"), ("c", "shown")]


@pytest.mark.parametrize(
    ("question", "answer"), [("u1", "a1"), ("u2", None), ("u3", None), ("other", None), (None, None)]
)
def test_the_answer_to_a_question_directly_follows_it(question: str | None, answer: str | None) -> None:
    users = [message(each, role="user") for each in ("u1", "u2", "u3")]
    assert answer_to([users[0], message("a1"), users[1], users[2]], question) == answer
