from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.client.protocol.late_join import LateJoin
from everyword.messages.fold import MessageFold
from everyword.messages.normaliser import Normaliser
from tests.messages.sequences import Chunk, hostile_sequence, legal_sequence, seeded

START: Chunk = {"type": "start", "messageId": "m"}
STEP: Chunk = {"type": "start-step"}
END_STEP: Chunk = {"type": "finish-step"}


def joined(chunks: list[Chunk], join: LateJoin | None = None) -> list[Chunk]:
    join = join or LateJoin("m")
    return [out for chunk in chunks for out in join.feed(chunk)]


def text(moment: str, name: str = "t", **fields: Any) -> Chunk:
    return {"type": f"text-{moment}", "id": name, **fields}


@pytest.mark.obligation("002-10", "002-15")
def test_joining_inside_a_text_gives_start_step_and_the_text_from_there() -> None:
    assert joined([text("delta", delta="lo"), text("delta", delta="!"), text("end")]) == [
        START,
        STEP,
        text("start"),
        text("delta", delta="lo"),
        text("delta", delta="!"),
        text("end"),
    ]


@pytest.mark.obligation("002-10")
@pytest.mark.parametrize(
    "chunk",
    [
        text("start"),
        {"type": "reasoning-start", "id": "r"},
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "x"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {}},
        {"type": "file", "url": "https://example.org", "mediaType": "image/png"},
    ],
    ids=lambda chunk: chunk["type"],
)
def test_missed_starts_are_added_before_content(chunk: Chunk) -> None:
    assert joined([chunk]) == [START, STEP, chunk]


@pytest.mark.obligation("002-11", "002-12")
def test_a_start_and_step_that_came_are_not_added_again() -> None:
    chunks = [START, STEP, text("start"), text("delta", delta="a")]
    assert joined(chunks) == chunks


def test_joining_at_a_step_adds_only_the_start() -> None:
    assert joined([STEP, text("start")]) == [START, STEP, text("start")]


@pytest.mark.obligation("002-13")
def test_after_the_end_of_a_step_content_needs_a_new_one() -> None:
    chunks = [START, STEP, text("start"), text("end"), END_STEP]
    assert joined([*chunks, text("start", "u")]) == [*chunks, STEP, text("start", "u")]


@pytest.mark.obligation("002-14")
@pytest.mark.parametrize("end", ["finish", "abort", "error"])
def test_an_ending_forgets_the_message(end: str) -> None:
    join = LateJoin("m")
    joined([START, STEP, END_STEP, {"type": end, "errorText": "x"}], join)
    assert join.feed(text("start")) == [START, STEP, text("start")]


def test_chunks_that_need_a_missed_one_are_left_out() -> None:
    missed = [
        text("end"),
        END_STEP,
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{"},
        {"type": "tool-output-available", "toolCallId": "c", "output": 1},
        {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "a"},
        {"type": "tool-approval-response", "approvalId": "a", "approved": True},
    ]
    assert joined(missed) == []


def test_a_tool_input_joined_midway_comes_whole_at_its_end() -> None:
    delta = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "1}"}
    whole = {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {"a": 1}}
    output = {"type": "tool-output-available", "toolCallId": "c", "output": 1}
    assert joined([delta, whole, output]) == [START, STEP, whole, output]


def normalised(items: list[Any]) -> list[Chunk]:
    normaliser = Normaliser("m")
    chunks = [chunk for item in items for chunk in normaliser.feed(item)]
    return [*chunks, *normaliser.finish()]


@given(seeded())
def test_a_stream_from_its_first_chunk_is_not_changed(rng: Random) -> None:
    chunks = normalised(hostile_sequence(rng))
    assert joined(chunks) == chunks


@pytest.mark.obligation("002-15")
@given(seeded())
def test_the_rest_of_a_stream_folds_and_is_complete(rng: Random) -> None:
    chunks = normalised(legal_sequence(rng))
    rest = chunks[rng.randrange(len(chunks)) :]
    fold = MessageFold("m")
    for chunk in joined(rest):
        fold.apply(chunk)
    said: dict[tuple[int, str], str] = {}
    step = 0
    for chunk in rest:
        step += chunk["type"] == "start-step"
        if chunk["type"] == "text-delta":
            said[step, chunk["id"]] = said.get((step, chunk["id"]), "") + chunk["delta"]
    texts = [part["text"] for part in fold.message().parts if part["type"] == "text" and part["text"]]
    assert sorted(texts) == sorted(piece for piece in said.values() if piece)
