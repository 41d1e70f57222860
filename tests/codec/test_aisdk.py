from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.codec.aisdk import DeliveryWriter, aisdk_decoder
from everyword.codec.decoder import Decoder, Delivery, DeliveryAction, StreamedMessage, StreamStatus, decode_history
from everyword.errors import FoldError
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from tests.messages.sequences import Chunk, legal_sequence, seeded

START: Chunk = {"type": "start", "messageId": "m"}
STEP: Chunk = {"type": "start-step"}
END_STEP: Chunk = {"type": "finish-step"}
TEXT: Chunk = {"type": "text-start", "id": "t"}
CALL: Chunk = {"type": "tool-input-start", "toolCallId": "c", "toolName": "x"}
WHOLE: Chunk = {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {"a": 1}}


def delta(piece: str) -> Chunk:
    return {"type": "text-delta", "id": "t", "delta": piece}


def seen(decoder: Decoder[Chunk], *deliveries: Delivery) -> list[Chunk]:
    return [decoded.event for delivery in deliveries for decoded in decoder.decode(delivery)]


def streamed(
    action: DeliveryAction, content: str = "", status: StreamStatus = StreamStatus.STREAMING, **fields: Any
) -> Delivery:
    given = {"serial": "s", "name": "text", "scope": "r", "message_id": "m", "headers": {"part": {"id": "t"}}}
    return Delivery(action=action, content=content, status=status, **{**given, **fields})


def discrete(chunk: Chunk, scope: str = "r", message_id: str | None = "m") -> Delivery:
    return Delivery(
        action=DeliveryAction.CREATE,
        serial=None,
        name=chunk["type"],
        content=chunk,
        is_stream=False,
        scope=scope,
        message_id=message_id,
    )


def written(writer: DeliveryWriter, chunks: list[Chunk], first: int = 0) -> list[Delivery]:
    return [delivery for index, chunk in enumerate(chunks, first) for delivery in writer.write(index, chunk)]


def folded(chunks: list[Chunk]) -> UIMessage:
    fold = MessageFold("m1")
    for chunk in chunks:
        fold.apply(chunk)
    return fold.message()


# -- what is made up -------------------------------------------------------------------------------


@pytest.mark.obligation("002-10", "002-15")
@pytest.mark.parametrize(
    ("name", "part"),
    [("text", {"id": "t"}), ("reasoning", {"id": "t"}), ("tool-input", {"toolCallId": "c", "toolName": "x"})],
)
def test_a_streamed_message_in_a_fresh_scope_begins_with_what_was_missed(name: str, part: Chunk) -> None:
    delivery = streamed(DeliveryAction.CREATE, name=name, headers={"part": part})
    assert seen(aisdk_decoder(), delivery) == [START, STEP, {"type": f"{name}-start", **part}]


@pytest.mark.obligation("002-10")
def test_a_second_stream_of_the_scope_brings_only_its_own_start() -> None:
    decoder = aisdk_decoder()
    seen(decoder, streamed(DeliveryAction.CREATE))
    assert seen(decoder, streamed(DeliveryAction.CREATE, serial="2", name="reasoning")) == [
        {**TEXT, "type": "reasoning-start"}
    ]


@pytest.mark.obligation("002-11", "002-12")
def test_a_real_start_and_step_are_not_made_up_again() -> None:
    decoder = aisdk_decoder()
    assert seen(decoder, discrete(START), discrete(STEP), streamed(DeliveryAction.CREATE)) == [START, STEP, TEXT]


@pytest.mark.obligation("002-13")
def test_behind_the_end_of_a_step_content_needs_a_step_but_no_start() -> None:
    decoder = aisdk_decoder()
    seen(decoder, streamed(DeliveryAction.CREATE))
    assert seen(decoder, discrete(END_STEP), streamed(DeliveryAction.CREATE, serial="2")) == [END_STEP, STEP, TEXT]


@pytest.mark.obligation("002-14")
@pytest.mark.parametrize("ending", ["finish", "abort", "error"])
def test_an_ending_forgets_the_scope(ending: str) -> None:
    decoder, over = aisdk_decoder(), {"type": ending}
    seen(decoder, streamed(DeliveryAction.CREATE))
    assert seen(decoder, discrete(over), streamed(DeliveryAction.CREATE, serial="2")) == [over, START, STEP, TEXT]


@pytest.mark.obligation("002-10")
@pytest.mark.parametrize("kind", ["tool-input-available", "tool-input-error"])
def test_a_call_that_was_not_streamed_is_content_too(kind: str) -> None:
    chunk = {**WHOLE, "type": kind}
    assert seen(aisdk_decoder(), discrete(chunk)) == [START, STEP, chunk]


@pytest.mark.parametrize(
    "kind",
    [
        *("file", "source-url", "source-document", "data-note", "tool-output-available", "tool-output-error"),
        *("tool-output-denied", "tool-approval-request", "message-metadata"),
    ],
)
def test_nothing_is_made_up_before_other_discrete_chunks(kind: str) -> None:
    chunk = {"type": kind, "transient": True}
    assert seen(aisdk_decoder(), discrete(chunk)) == [chunk]


def test_scopes_miss_things_for_themselves_and_the_empty_one_is_a_scope() -> None:
    decoder = aisdk_decoder()
    seen(decoder, streamed(DeliveryAction.CREATE, serial="1", scope=""))
    assert seen(decoder, streamed(DeliveryAction.CREATE, serial="2", scope="")) == [TEXT]
    assert seen(decoder, streamed(DeliveryAction.CREATE, serial="3", scope="u")) == [START, STEP, TEXT]


def test_a_start_that_was_made_up_for_an_unnamed_message_names_none() -> None:
    assert seen(aisdk_decoder(), streamed(DeliveryAction.CREATE, message_id=None))[0] == {"type": "start"}


def test_one_text_from_first_contact_to_the_next_step() -> None:
    decoder = aisdk_decoder()
    end = {"type": "text-end", "id": "t"}
    assert seen(decoder, streamed(DeliveryAction.UPDATE, "Hello", version=3)) == [START, STEP, TEXT, delta("Hello")]
    assert seen(decoder, streamed(DeliveryAction.UPDATE, "Hel", version=2)) == []
    assert seen(decoder, streamed(DeliveryAction.APPEND, " w", version=4)) == [delta(" w")]
    assert seen(decoder, streamed(DeliveryAction.UPDATE, "Hello world", StreamStatus.COMPLETE, version=5)) == [
        delta("orld"),
        end,
    ]
    assert seen(decoder, streamed(DeliveryAction.APPEND, "!", version=6)) == []
    assert seen(decoder, streamed(DeliveryAction.CREATE, version=7)) == []
    reasoning = streamed(DeliveryAction.CREATE, serial="2", name="reasoning")
    assert seen(decoder, reasoning) == [{"type": "reasoning-start", "id": "t"}]
    assert seen(decoder, discrete(END_STEP), streamed(DeliveryAction.CREATE, serial="3")) == [END_STEP, STEP, TEXT]


def test_observers_hear_of_replaced_and_deleted_messages() -> None:
    heard: list[str] = []

    def deleted(serial: str, stream: StreamedMessage | None) -> None:
        heard.append(f"{serial} is gone")

    decoder = aisdk_decoder(on_replaced=lambda stream: heard.append(stream.text), on_deleted=deleted)
    seen(
        decoder,
        streamed(DeliveryAction.UPDATE, "a"),
        streamed(DeliveryAction.UPDATE, "b"),
        streamed(DeliveryAction.DELETE),
    )
    assert heard == ["b", "s is gone"]


@pytest.mark.parametrize(
    ("text", "encoding", "value"),
    [
        ('{"a": 1}', {}, {"a": 1}),
        ("", {}, None),
        ("not json", {}, "not json"),
        ('{"a": ', {}, '{"a": '),
        ("5", {"inputEncoding": "text"}, "5"),
        ("5", {"inputEncoding": "json"}, 5),
    ],
)
def test_a_whole_input_is_read_from_its_text_if_it_was_not_sent(text: str, encoding: Chunk, value: Any) -> None:
    part = {"toolCallId": "c", "toolName": "x", **encoding}
    delivery = streamed(DeliveryAction.UPDATE, text, StreamStatus.COMPLETE, name="tool-input", headers={"part": part})
    assert seen(aisdk_decoder(), delivery)[-1] == {**WHOLE, "input": value}


# -- writing ---------------------------------------------------------------------------------------


@given(seeded())
def test_what_was_written_is_read_as_it_was(rng: Random) -> None:
    chunks = legal_sequence(rng, newer=rng.random() < 0.5)
    assert seen(aisdk_decoder(), *written(DeliveryWriter("r", "m1"), chunks)) == chunks


@pytest.mark.obligation("002-15")
@given(seeded())
def test_history_and_what_follows_fold_like_the_whole(rng: Random) -> None:
    chunks = legal_sequence(rng, newer=rng.random() < 0.5)
    cut = rng.randrange(len(chunks) + 1)
    writer, decoder = DeliveryWriter("r", "m1"), aisdk_decoder()
    written(writer, chunks[:cut])
    told = [decoded.event for decoded in decode_history(decoder, writer.history())]
    told += seen(decoder, *written(writer, chunks[cut:], cut))
    assert folded(told) == folded(chunks)
    assert [chunk["type"] for chunk in told].count("start") == 1


@given(seeded())
def test_history_adds_nothing_to_a_live_feed_that_saw_it_all(rng: Random) -> None:
    chunks = legal_sequence(rng)
    writer, decoder = DeliveryWriter("r", "m1"), aisdk_decoder()
    deliveries = written(writer, chunks)
    seen(decoder, *deliveries)
    assert decode_history(decoder, writer.history()) == []
    assert seen(decoder, *deliveries) == []


def test_an_input_that_was_streamed_is_closed_and_one_that_was_not_is_discrete() -> None:
    writer = DeliveryWriter("r")
    streamed_input = written(writer, [CALL, WHOLE])
    assert [delivery.action for delivery in streamed_input] == [DeliveryAction.CREATE, DeliveryAction.APPEND]
    assert streamed_input[1].status is StreamStatus.COMPLETE
    [alone] = writer.write(2, {**WHOLE, "toolCallId": "d"})
    assert (alone.action, alone.is_stream, alone.name) == (DeliveryAction.CREATE, False, "tool-input-available")


def test_an_abort_cancels_what_is_open_and_then_says_so() -> None:
    writer = DeliveryWriter("r")
    written(writer, [START, STEP, TEXT, CALL, delta("a")])
    *cancelled, abort = writer.write(5, {"type": "abort"})
    assert [delivery.status for delivery in cancelled] == [StreamStatus.CANCELLED, StreamStatus.CANCELLED]
    assert abort.name == "abort"
    assert [delivery.name for delivery in writer.write(6, {"type": "abort"})] == ["abort"]
    text = next(delivery for delivery in writer.history() if delivery.name == "text")
    assert (text.action, text.content, text.status) == (DeliveryAction.UPDATE, "a", StreamStatus.CANCELLED)


@pytest.mark.parametrize("chunk", [delta("a"), {"type": "text-end", "id": "t"}, {"type": "reasoning-end", "id": "t"}])
def test_a_part_that_is_not_open_cannot_be_written_on(chunk: Chunk) -> None:
    with pytest.raises(FoldError, match=r"unable to write .*; no open part 't'"):
        DeliveryWriter("r").write(0, chunk)


def test_a_tool_input_and_a_text_with_one_id_do_not_meet() -> None:
    reasoning = {"type": "reasoning-start", "id": "t"}
    chunks = [START, STEP, TEXT, reasoning, delta("a"), {"type": "reasoning-end", "id": "t"}, delta("b")]
    assert seen(aisdk_decoder(), *written(DeliveryWriter("r", "m"), chunks)) == chunks


def test_an_id_that_comes_again_is_another_message() -> None:
    end = {"type": "text-end", "id": "t"}
    chunks = [START, STEP, TEXT, delta("a"), end, END_STEP, STEP, TEXT, delta("b"), end]
    writer = DeliveryWriter("r", "m")
    assert seen(aisdk_decoder(), *written(writer, chunks)) == chunks
    assert [each.content for each in writer.history() if each.name == "text"] == ["b", "a"]


def test_transient_parts_are_delivered_and_not_kept() -> None:
    note = {"type": "data-note", "data": 1, "transient": True}
    writer = DeliveryWriter("r")
    assert [delivery.content for delivery in writer.write(0, note)] == [note]
    assert writer.history() == []
