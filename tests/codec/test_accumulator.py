from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.codec.accumulator import MessageAccumulator
from everyword.codec.aisdk import DeliveryWriter, aisdk_decoder
from everyword.codec.decoder import Decoded, Delivery, DeliveryAction
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from tests.messages.sequences import Chunk, legal_sequence, seeded

START: Chunk = {"type": "start"}
STEP: Chunk = {"type": "start-step"}
TEXT: Chunk = {"type": "text-start", "id": "t"}
FINISH: Chunk = {"type": "finish"}


def delta(piece: str) -> Chunk:
    return {"type": "text-delta", "id": "t", "delta": piece}


def said(*chunks: Chunk, of: str | None = "m") -> list[Decoded[Chunk]]:
    return [Decoded(chunk, of) for chunk in chunks]


def taken(*outputs: Decoded[Chunk] | UIMessage) -> MessageAccumulator:
    accumulator = MessageAccumulator()
    accumulator.take(outputs)
    return accumulator


def ids(messages: list[UIMessage]) -> list[str]:
    return [message.id for message in messages]


@given(seeded())
def test_interleaved_messages_come_out_as_if_each_had_come_alone(rng: Random) -> None:
    streams = {name: legal_sequence(rng) for name in ("m1", "m2", "m3")}
    alone = {name: MessageFold(name) for name in streams}
    waiting = {name: [{**chunk, "messageId": name} if chunk["type"] == "start" else chunk for chunk in chunks]
               for name, chunks in streams.items()}  # fmt: skip
    accumulator = MessageAccumulator()
    while waiting:
        name = rng.choice(list(waiting))
        chunk = waiting[name].pop(0)
        alone[name].apply(chunk)
        accumulator.take(said(chunk, of=name))
        waiting = {each: chunks for each, chunks in waiting.items() if chunks}
    is_over = {name: chunks[-1]["type"] == "finish" for name, chunks in streams.items()}
    expected = {name: fold.closed_message() if is_over[name] else fold.message() for name, fold in alone.items()}
    assert {message.id: message for message in accumulator.messages} == expected
    assert set(ids(accumulator.completed)) == {name for name, over in is_over.items() if over}
    assert accumulator.is_active is not all(is_over.values())


@given(seeded())
def test_a_late_reader_of_the_history_has_the_messages_of_a_live_one(rng: Random) -> None:
    chunks = legal_sequence(rng)
    writer, live, late = DeliveryWriter("r", "m1"), MessageAccumulator(), MessageAccumulator()
    decoder = aisdk_decoder()
    for index, chunk in enumerate(chunks):
        for delivery in writer.write(index, chunk):
            live.take(decoder.decode(delivery))
    decoder = aisdk_decoder()
    for delivery in reversed(writer.history()):
        late.take(decoder.decode(delivery))
    assert late.messages == live.messages
    assert late.is_active is live.is_active


@pytest.mark.obligation("002-15")
def test_joining_inside_a_text_gives_a_message_although_its_start_was_missed() -> None:
    delivery = Delivery(
        action=DeliveryAction.APPEND,
        serial="s",
        name="text",
        content="lo",
        message_id="m",
        headers={"part": {"id": "t"}},
    )
    accumulator = taken(*aisdk_decoder().decode(delivery))
    assert [(message.id, message.text) for message in accumulator.messages] == [("m", "lo")]


@pytest.mark.parametrize("chunk", [STEP, TEXT, {"type": "data-note", "data": 1}, {"type": "message-metadata"}])
def test_any_chunk_that_fits_begins_its_message(chunk: Chunk) -> None:
    accumulator = taken(*said(chunk))
    assert ids(accumulator.messages) == ["m"]
    assert accumulator.messages[0].role == "assistant"
    assert accumulator.completed == []
    assert accumulator.is_active


@pytest.mark.parametrize(
    "chunk",
    [
        delta("a"),
        {"type": "text-end", "id": "t"},
        {"type": "tool-output-available", "toolCallId": "c", "output": 1},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{"},
        {"type": "data-note", "data": 1, "transient": True},
        FINISH,
    ],
    ids=lambda chunk: chunk["type"],
)
def test_a_chunk_that_fits_nothing_makes_no_message(chunk: Chunk) -> None:
    accumulator = taken(*said(chunk))
    assert accumulator.messages == []
    assert not accumulator.is_active


def test_what_names_no_message_is_left_out() -> None:
    assert taken(*said(START, STEP, TEXT, of=None)).messages == []


def test_a_chunk_that_does_not_fit_leaves_its_message_as_it_was() -> None:
    accumulator = taken(*said(START, TEXT, delta("a"), {**delta("?"), "id": "nobody"}, delta("b")))
    assert accumulator.messages[0].text == "ab"


@pytest.mark.parametrize("ending", ["finish", "abort", "error"])
def test_an_ending_completes_the_message_and_closes_its_parts(ending: str) -> None:
    accumulator = taken(*said(START, TEXT, delta("a"), {"type": ending, "errorText": "x"}))
    assert accumulator.messages == accumulator.completed
    assert accumulator.completed[0].parts == [{"type": "text", "text": "a", "state": "done"}]
    assert not accumulator.is_active


def test_a_completed_message_takes_nothing_more() -> None:
    accumulator = taken(*said(START, TEXT, FINISH, TEXT, delta("late"), STEP))
    assert accumulator.completed[0].text == ""
    assert not accumulator.is_active


def test_a_continuation_goes_on_with_a_completed_message() -> None:
    accumulator = taken(*said(START, TEXT, delta("a"), FINISH, START, STEP, TEXT, delta("b")))
    assert [message.text for message in accumulator.messages] == ["ab"]
    assert accumulator.completed == []


def test_a_start_may_rename_its_message_and_describe_it() -> None:
    accumulator = taken(*said({**START, "messageId": "other", "messageMetadata": {"k": 1}}, TEXT))
    assert [(message.id, message.metadata) for message in accumulator.messages] == [("other", {"k": 1})]


def test_ids_of_parts_may_come_again_in_the_next_step() -> None:
    accumulator = taken(*said(START, STEP, TEXT, delta("a"), {"type": "finish-step"}, delta("?"), STEP, TEXT))
    accumulator.take(said(delta("b")))
    assert [part["text"] for part in accumulator.messages[0].parts if part["type"] == "text"] == ["a", "b"]


def test_data_with_one_type_and_id_is_replaced_in_its_place() -> None:
    notes: list[dict[str, Any]] = [{"type": "data-note", "id": "n", "data": n} for n in (1, 2)]
    accumulator = taken(*said(START, notes[0], TEXT, notes[1], {"type": "data-note", "data": 9, "transient": True}))
    assert accumulator.messages[0].parts[0] == notes[1]
    assert len(accumulator.messages[0].parts) == 2


def test_a_failed_input_without_a_start_makes_a_failed_call() -> None:
    failed = {"type": "tool-input-error", "toolCallId": "c", "toolName": "x", "input": 1, "errorText": "bad"}
    part = taken(*said(START, failed)).messages[0].parts[0]
    assert (part["type"], part["state"], part["errorText"]) == ("tool-x", "output-error", "bad")


def test_a_whole_message_is_complete_and_replaces_what_was_known_of_it() -> None:
    whole = UIMessage("m", "user", [{"type": "text", "text": "hi"}])
    accumulator = taken(*said(START, TEXT), whole)
    assert accumulator.messages == accumulator.completed == [whole]
    assert not accumulator.is_active


def test_a_completed_message_can_be_replaced_by_its_id() -> None:
    accumulator = taken(*said(START, TEXT, delta("a"), FINISH))
    edited = UIMessage("m", "assistant", [{"type": "text", "text": "b"}])
    assert accumulator.update(edited)
    assert accumulator.completed == [edited]


def test_the_parts_of_a_replaced_message_go_on_where_they_are_still_open() -> None:
    accumulator = taken(*said(START, TEXT, delta("a"), {**TEXT, "id": "u"}))
    part = {"type": "text", "text": "A", "state": "streaming"}
    assert accumulator.update(UIMessage("m", "assistant", [part]))
    accumulator.take(said(delta("b"), {**delta("?"), "id": "u"}))
    assert [message.text for message in accumulator.messages] == ["Ab"]


def test_an_unknown_message_is_not_updated() -> None:
    accumulator = taken(*said(START, TEXT))
    assert not accumulator.update(UIMessage("nobody", "assistant", []))
    assert ids(accumulator.messages) == ["m"]
