from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.codec.encode import encode_message, fold_from_message
from everyword.messages.chunks import encode_chunk
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.messages.normaliser import Normaliser
from everyword.messages.tool_calls import ApprovalAnswer, CallAnswer, ErrorAnswer, OutputAnswer
from tests.messages.sequences import Chunk, hostile_sequence, json_value, legal_sequence, seeded


def folded(chunks: list[Chunk]) -> MessageFold:
    fold = MessageFold("m")
    for chunk in chunks:
        fold.apply(chunk)
    return fold


def encoded_and_folded(message: UIMessage, **how: bool) -> UIMessage:
    return folded(encode_message(message, **how)).message()


def normalised(items: list[Any], *, newer: bool) -> list[Chunk]:
    normaliser = Normaliser("m", newer=newer)
    chunks = [chunk for item in items for chunk in normaliser.feed(item)]
    return [*chunks, *normaliser.finish()]


@given(seeded())
def test_a_message_that_any_handler_made_comes_back_whole(rng: Random) -> None:
    chunks = normalised(hostile_sequence(rng), newer=rng.random() < 0.5)
    message = folded(chunks[: rng.randrange(len(chunks) + 1)]).message()
    assert encoded_and_folded(message) == message


@given(seeded())
def test_a_message_that_a_good_server_made_comes_back_whole(rng: Random) -> None:
    chunks = legal_sequence(rng)
    message = folded(chunks[: rng.randrange(len(chunks) + 1)]).message()
    assert encoded_and_folded(message) == message


@given(seeded())
def test_a_message_whose_calls_were_answered_comes_back_whole(rng: Random) -> None:
    fold = folded(normalised(legal_sequence(rng, newer=True), newer=True))
    for part in fold.message().parts:
        if "toolCallId" in part and rng.random() < 0.7:
            answers: list[CallAnswer] = [
                OutputAnswer(json_value(rng)),
                ErrorAnswer("no"),
                ApprovalAnswer(True),
                ApprovalAnswer(False, "why"),
            ]
            fold.answer(part["toolCallId"], rng.choice(answers))
    message = fold.message()
    assert encoded_and_folded(message) == message


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "a", "state": "done"},
        {"type": "text", "text": "", "state": "streaming"},
        {"type": "reasoning", "id": "r", "text": "a", "state": "done", "providerMetadata": {"p": {}}},
        {"type": "tool-x", "toolCallId": "c", "state": "input-streaming"},
        {"type": "tool-x", "toolCallId": "c", "state": "input-streaming", "rawInput": "", "title": "T"},
        {"type": "tool-x", "toolCallId": "c", "state": "input-available", "input": None},
        {"type": "dynamic-tool", "toolName": "x", "toolCallId": "c", "state": "output-error", "input": 1,
         "errorText": "e", "resultProviderMetadata": {"p": {"a": 1}}},
        {"type": "tool-x", "toolCallId": "c", "state": "output-error", "rawInput": [1], "errorText": "e"},
        {"type": "tool-x", "toolCallId": "c", "state": "output-error", "rawInput": "5", "errorText": "e"},
        {"type": "tool-x", "toolCallId": "c", "state": "output-available", "input": {}, "output": None,
         "preliminary": True},
        {"type": "tool-x", "toolCallId": "c", "state": "output-denied", "input": {},
         "approval": {"id": "a", "approved": False, "reason": "no", "descriptor": {"x": 1}}},
        {"type": "tool-x", "toolCallId": "c", "state": "approval-responded", "input": {},
         "approval": {"id": "a", "approved": True, "signature": "s"}},
        {"type": "data-note", "id": "n", "data": None},
        {"type": "source-url", "sourceId": "s", "url": "https://example.org"},
        {"type": "step-start"},
    ],
    ids=lambda part: f"{part['type']}-{part.get('state', '')}",
)  # fmt: skip
def test_every_part_comes_back_as_it_was(part: dict[str, Any]) -> None:
    message = UIMessage("m", "assistant", [part], {"k": [1]})
    assert encoded_and_folded(message) == message


def test_a_replay_leaves_out_what_clients_reject() -> None:
    part = {"type": "tool-x", "toolCallId": "c", "state": "approval-responded", "input": {}}
    message = UIMessage("m", "assistant", [{**part, "approval": {"id": "a", "approved": True}}])
    chunks = encode_message(message, is_replay=True)
    assert [chunk["type"] for chunk in chunks] == ["start", "tool-input-available", "finish"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "custom", "kind": "a.b"},
        {"type": "file", "url": "https://example.org"},
        {"type": "tool-x", "state": "input-available"},
        {"type": "data-x", "id": 7, "data": 1},
    ],
    ids=lambda part: part["type"],
)
def test_a_replay_leaves_out_parts_that_clients_would_stumble_over(part: dict[str, Any]) -> None:
    said = {"type": "text", "text": "a", "state": "done"}
    chunks = encode_message(UIMessage("m", "assistant", [part, said]), is_replay=True)
    assert [chunk["type"] for chunk in chunks] == ["start", "text-start", "text-delta", "text-end", "finish"]


def test_a_replay_is_made_of_chunks_that_can_be_written() -> None:
    approval = {"approved": True}
    part = {"type": "tool-x", "toolCallId": "c", "state": "approval-requested", "input": {}, "approval": approval}
    for chunk in encode_message(UIMessage("m", "assistant", [part, {"type": "text"}]), is_replay=True):
        assert encode_chunk(chunk)


def test_a_part_that_no_chunk_makes_is_left_out() -> None:
    message = UIMessage("m", "assistant", [{"type": "hologram"}, {"type": "text", "text": "a", "state": "done"}])
    assert [part["type"] for part in encoded_and_folded(message).parts] == ["text"]


@given(seeded())
def test_a_message_and_its_open_parts_make_its_fold(rng: Random) -> None:
    chunks = legal_sequence(rng)
    fold = folded(chunks[: rng.randrange(len(chunks) + 1)])
    again = fold_from_message(fold.message(), fold.open_parts)
    assert again.message() == fold.message()
    assert fold.open_parts.items() <= again.open_parts.items()
