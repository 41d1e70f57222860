"""JSON: one valid document in its documented form, and the names of its fields."""

from __future__ import annotations

import msgspec
from hypothesis import given

from everyword.transcripts.formats import FORMATS
from tests.transcripts.hostile import described, head, texts


@given(texts)
def test_a_document_is_valid_and_has_the_texts_unchanged(text: str) -> None:
    messages = [described(text)] * 2
    said = msgspec.json.decode("".join(FORMATS["json"].write(head(text), messages)))
    assert (said["format"], said["version"], len(said["messages"])) == ("everyword-transcript", 1, 2)
    if text:
        assert said["messages"][0]["parts"][0] == {"type": "text", "text": text}


def test_a_conversation_without_messages_is_valid() -> None:
    assert msgspec.json.decode("".join(FORMATS["json"].write(head("x"), [])))["messages"] == []


def test_the_fields_of_a_document() -> None:
    said = msgspec.json.decode("".join(FORMATS["json"].write(head("x"), [described("y")])))
    assert said["conversation"] == {
        "title": "x",
        "createdAt": 0,
        "updatedAt": 1000,
        "writtenAt": 2000,
        "kind": "chat",
        "name": "x",
        "owner": "x",
        "participants": [{"id": "x", "name": "x"}],
    }
    (message,) = said["messages"]
    call = next(each for each in message["parts"] if each["type"] == "tool-call")
    assert call == {
        "type": "tool-call",
        "tool": "y",
        "status": "done",
        "input": {"y": ["y"]},
        "output": "y",
        "approval": {
            "status": "denied",
            "by": {"id": "y", "name": "y"},
            "askedAt": 0,
            "at": 1000,
            "reason": "y",
            "summary": "y",
        },
    }
    assert (message["role"], message["status"], message["error"], message["author"]["id"]) == (
        *("assistant", "failed", "y"),
        "y",
    )
