from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.client.protocol.stream_joiner import StreamJoiner
from everyword.codec.compact import compact, replay_from_fold
from everyword.codec.encode import encode_message, fold_from_message
from everyword.errors import FoldError
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.messages.normaliser import Normaliser
from tests.messages.sequences import Chunk, legal_sequence, seeded

START: Chunk = {"type": "start", "messageId": "m"}
STEP: Chunk = {"type": "start-step"}
END_STEP: Chunk = {"type": "finish-step"}
FINISH: Chunk = {"type": "finish"}

Indexed = list[tuple[int | None, Chunk]]


def text(moment: str, name: str = "t", **fields: Any) -> Chunk:
    return {"type": f"text-{moment}", "id": name, **fields}


def delta(piece: str, name: str = "t") -> Chunk:
    return text("delta", name, delta=piece)


def call(moment: str, **fields: Any) -> Chunk:
    return {"type": f"tool-{moment}", "toolCallId": "c", **fields}


def folded(chunks: list[Chunk]) -> MessageFold:
    fold = MessageFold("m")
    for chunk in chunks:
        fold.apply(chunk)
    return fold


def unindexed(chunks: list[Chunk]) -> Indexed:
    return [(None, chunk) for chunk in chunks]


def indexed(chunks: list[Chunk], first: int = 0) -> Indexed:
    return list(enumerate(chunks, first))


def reader_of(chunks: list[Chunk]) -> StreamJoiner:
    """Return a reader that has seen these chunks, and nothing behind them."""
    if not chunks:
        return StreamJoiner("m")
    return StreamJoiner("m", seen=folded(chunks), cursor=len(chunks) - 1)


def fed(reader: StreamJoiner, chunks: Indexed) -> list[Chunk]:
    return [out for index, chunk in chunks for out in reader.feed(index, chunk)]


def without_approvals(message: UIMessage) -> list[dict[str, Any]]:
    """Return the parts without what replays leave out: answered approvals and their requests (R-2)."""
    parts = []
    for part in message.parts:
        if "approval" in part and part["state"] != "approval-requested":
            part = {name: value for name, value in part.items() if name != "approval"}
            if part["state"] == "approval-responded":
                part["state"] = "input-available"
        parts.append(part)
    return parts


def normalised(rng: Random) -> list[Chunk]:
    normaliser = Normaliser("m")
    chunks = [chunk for item in legal_sequence(rng) for chunk in normaliser.feed(item)]
    return [*chunks, *normaliser.finish()] if rng.random() < 0.8 else chunks


def assert_nothing_lost(heard: list[Chunk], chunks: list[Chunk]) -> None:
    seen, whole = folded(heard).message(), folded(chunks).message()
    assert without_approvals(seen) == without_approvals(whole)
    assert (seen.id, seen.metadata) == (whole.id, whole.metadata)


# -- properties ------------------------------------------------------------------------------------


@pytest.mark.obligation("002-15")
@given(seeded())
def test_a_reader_that_joins_anywhere_ends_with_the_whole_message(rng: Random) -> None:
    chunks = normalised(rng)
    cut = rng.randrange(len(chunks) + 1)
    replay = unindexed(replay_from_fold(folded(chunks[:cut])))
    heard = fed(StreamJoiner("m"), [*replay, *indexed(chunks[cut:], cut)])
    assert_nothing_lost(heard, chunks)


@given(seeded())
def test_a_reader_gets_only_the_rest_of_a_replay(rng: Random) -> None:
    chunks = normalised(rng)
    cut = rng.randrange(len(chunks) + 1)
    seen = chunks[: rng.randrange(cut + 1)]
    replay = unindexed(replay_from_fold(folded(chunks[:cut])))
    reader = reader_of(seen)
    heard = fed(reader, replay)
    heard += reader.replayed(cut - 1)
    heard += fed(reader, indexed(chunks[cut:], cut))
    assert not seen or all(chunk["type"] != "start" for chunk in heard)
    assert_nothing_lost([*seen, *heard], chunks)
    assert reader.held.message() == folded([*seen, *heard]).message()


@given(seeded())
def test_a_replay_whose_last_chunk_has_an_index_needs_no_other_end(rng: Random) -> None:
    chunks = normalised(rng)
    cut = rng.randrange(1, len(chunks) + 1)
    seen = chunks[: rng.randrange(1, cut + 1)]
    replay = replay_from_fold(folded(chunks[:cut]))
    numbered = [*unindexed(replay[:-1]), (cut - 1, replay[-1])]
    heard = fed(reader_of(seen), [*numbered, *indexed(chunks[cut:], cut)])
    assert all(chunk["type"] != "start" for chunk in heard)
    assert_nothing_lost([*seen, *heard], chunks)


@given(seeded())
def test_a_compacted_stream_adds_only_chunks_after_the_cursor(rng: Random) -> None:
    chunks = normalised(rng)
    seen = chunks[: rng.randrange(len(chunks) + 1)]
    heard = fed(reader_of(seen), [*compact(enumerate(chunks))])
    assert not seen or all(chunk["type"] != "start" for chunk in heard)
    assert_nothing_lost([*seen, *heard], chunks)


@given(seeded())
def test_the_compacted_rest_after_the_cursor_fits(rng: Random) -> None:
    chunks = normalised(rng)
    cursor = rng.randrange(len(chunks) + 1)
    rest = compact(indexed(chunks)[cursor:])  # type: ignore[arg-type]
    heard = fed(reader_of(chunks[:cursor]), [*rest])
    assert folded([*chunks[:cursor], *heard]).message() == folded(chunks).message()


@given(seeded())
def test_the_stored_message_alone_leads_to_the_end(rng: Random) -> None:
    chunks = normalised(rng)
    chunks += folded(chunks).closing_chunks()
    seen = chunks[: rng.randrange(len(chunks) + 1)]
    stored = folded(chunks).message()
    reader = reader_of([chunk for chunk in seen if chunk["type"] != "finish"])
    heard = fed(reader, unindexed(encode_message(stored, is_replay=True)))
    assert not seen or all(chunk["type"] != "start" for chunk in heard)
    assert heard[-1]["type"] == "finish"
    assert_nothing_lost([*seen, *heard], chunks)


@given(seeded())
def test_a_second_join_adds_nothing(rng: Random) -> None:
    chunks = [chunk for chunk in normalised(rng) if chunk["type"] != "finish"]
    cut = rng.randrange(1, len(chunks) + 1)
    transients = [chunk for chunk in chunks[:cut] if chunk.get("transient")]
    replay = unindexed([*replay_from_fold(folded(chunks[:cut])), *transients])
    reader = StreamJoiner("m")
    fed(reader, replay)
    assert [fed(reader, replay), reader.replayed(cut - 1)] == [[], []]
    assert [fed(reader, replay), reader.replayed(cut - 1)] == [[], []]
    assert fed(reader, indexed(chunks[:cut])) == []
    assert fed(reader, [*compact(enumerate(chunks[:cut]))]) == []
    assert reader.cursor == cut - 1


@given(seeded())
def test_a_reader_from_the_first_chunk_on_gets_every_chunk_as_it_is(rng: Random) -> None:
    chunks = normalised(rng)
    assert fed(StreamJoiner("m"), indexed(chunks)) == chunks


@given(seeded())
def test_a_continuation_in_single_chunks_resumes_where_its_reader_is(rng: Random) -> None:
    base = folded(normalised(rng)).message()
    normaliser = Normaliser("m", base=base)
    chunks = [START, *(chunk for item in legal_sequence(rng) for chunk in normaliser.feed(item))]
    seen = chunks[: rng.randrange(len(chunks) + 1)]
    whole, held = MessageFold("m", base=base), MessageFold("m", base=base)
    for chunk in chunks:
        whole.apply(chunk)
    for chunk in seen:
        held.apply(chunk)
    reader = StreamJoiner("m", seen=held, cursor=len(seen) - 1, base=base)
    fed(reader, indexed(chunks))
    assert reader.held.message() == whole.message()


@given(seeded())
def test_parts_that_the_reader_has_under_other_ids_keep_those(rng: Random) -> None:
    chunks = [chunk for chunk in normalised(rng) if not chunk["type"].startswith("reasoning-")]
    cut = rng.randrange(1, len(chunks) + 1)
    told = folded(chunks[:cut])
    seen = fold_from_message(told.message(), {at: f"ours-{at}" for at in told.open_parts})
    reader = StreamJoiner("m", seen=seen, cursor=cut - 1)
    fed(reader, unindexed(replay_from_fold(told)))
    assert reader.replayed(cut - 1) == []
    fed(reader, indexed(chunks[cut:], cut))
    assert without_approvals(reader.held.message()) == without_approvals(folded(chunks).message())


# -- cases -----------------------------------------------------------------------------------------

OPENING = [START, STEP, text("start"), delta("Hel"), delta("lo")]


@pytest.mark.obligation("002-15")
def test_without_a_replay_missed_starts_are_added() -> None:
    reader = StreamJoiner("m")
    assert reader.feed(4, delta("lo")) == [START, STEP, text("start"), delta("lo")]
    assert reader.cursor == 4


def test_a_longer_text_adds_only_its_rest() -> None:
    reader = reader_of(OPENING)
    assert fed(reader, unindexed([START, STEP, text("start"), delta("Hello wor")])) == []
    assert reader.replayed(7) == [delta(" wor")]
    assert reader.feed(7, delta("r")) == []
    assert reader.feed(8, delta("ld")) == [delta("ld")]


def test_a_replay_ends_at_the_next_chunk_after_the_cursor() -> None:
    reader = reader_of(OPENING)
    fed(reader, unindexed([START, STEP, text("start"), delta("Hello")]))
    assert reader.feed(5, delta("!")) == [delta("!")]
    assert reader.cursor == 5


def test_a_compacted_chunk_across_the_cursor_is_cut_at_the_cursor() -> None:
    reader = reader_of(OPENING[:4])
    assert fed(reader, [(0, START), (1, STEP), (2, text("start")), (6, delta("Hello you"))]) == [delta("lo you")]


def test_a_compacted_chunk_that_may_repeat_chunks_is_refused() -> None:
    reader = reader_of(OPENING)
    reader.feed(2, text("start"))
    with pytest.raises(FoldError, match="unable to join at chunk 6; it may repeat chunks up to 4"):
        reader.feed(6, delta("Hello you"))


def test_a_replaced_text_is_sent_anew_from_the_start() -> None:
    reader = reader_of(OPENING)
    fed(reader, unindexed([START, STEP, text("start"), delta("Bye")]))
    assert reader.replayed() == [START, STEP, text("start"), delta("Bye")]
    assert reader.feed(9, delta("!")) == [delta("!")]
    assert reader.held.message().text == "Bye!"


def test_a_part_that_the_reader_has_closed_is_sent_anew() -> None:
    reader = reader_of([*OPENING, text("end")])
    fed(reader, unindexed([START, STEP, text("start"), delta("Hello")]))
    assert reader.replayed() == [START, STEP, text("start"), delta("Hello")]


def test_an_older_replay_is_ignored() -> None:
    reader = reader_of(OPENING)
    fed(reader, unindexed([START, STEP, text("start"), delta("H")]))
    assert reader.replayed(3) == []
    assert reader.held.message().text == "Hello"


def test_without_a_replay_there_is_nothing_to_add() -> None:
    assert reader_of(OPENING).replayed(4) == []


def test_a_call_gets_from_half_an_input_to_its_output() -> None:
    start = call("input-start", toolName="x")
    whole = call("input-available", toolName="x", input={"a": 1})
    output = call("output-available", output=2)
    reader = reader_of([START, STEP, start, call("input-delta", inputTextDelta='{"a"')])
    fed(reader, unindexed([START, STEP, whole, output]))
    assert reader.replayed() == [whole, output]


def test_a_half_input_grows_by_the_rest() -> None:
    start = call("input-start", toolName="x")
    reader = reader_of([START, STEP, start, call("input-delta", inputTextDelta='{"a"')])
    fed(reader, unindexed([START, STEP, start, call("input-delta", inputTextDelta='{"a": 1')]))
    assert reader.replayed() == [call("input-delta", inputTextDelta=": 1")]


def test_an_answered_approval_that_a_replay_leaves_out_is_kept() -> None:
    whole, request = call("input-available", toolName="x", input={}), call("approval-request", approvalId="a")
    reader = reader_of([START, STEP, whole, request])
    fed(reader, unindexed([START, STEP, whole]))
    assert reader.replayed() == []
    fed(reader, unindexed([START, STEP, whole, call("output-available", output=1)]))
    assert reader.replayed() == [call("output-available", output=1)]
    assert reader.held.message().parts[1]["approval"] == {"id": "a"}


def test_a_part_of_newer_clients_that_a_replay_leaves_out_is_kept() -> None:
    reader = reader_of([START, STEP, {"type": "custom", "kind": "a.b"}, text("start"), delta("a")])
    fed(reader, unindexed([START, STEP, text("start"), delta("ab")]))
    assert reader.replayed() == [delta("b")]
    assert [part["type"] for part in reader.held.message().parts] == ["step-start", "custom", "text"]


def test_transient_parts_of_a_replay_are_delivered_once() -> None:
    first, second = ({"type": "data-note", "data": n, "transient": True} for n in (1, 2))
    reader = StreamJoiner("m")
    assert fed(reader, unindexed([START, STEP, first])) == [START, STEP, first]
    fed(reader, unindexed([START, STEP, first, second]))
    assert reader.replayed() == [second]
    fed(reader, unindexed([START, STEP, first, second]))
    assert reader.replayed() == []


def test_a_transient_part_after_a_replay_ends_it_and_is_delivered() -> None:
    note: Chunk = {"type": "data-note", "data": 1, "transient": True}
    reader = reader_of(OPENING)
    fed(reader, unindexed([START, STEP, text("start"), delta("Hello!")]))
    assert reader.feed(6, note) == [delta("!"), note]


@pytest.mark.parametrize("ending", ["finish", "abort", "error"])
def test_an_ending_ends_the_replay_and_the_stream(ending: str) -> None:
    over = {"type": ending, "errorText": "x"}
    reader = reader_of(OPENING)
    said = fed(reader, unindexed([START, STEP, text("start"), delta("Hello!"), text("end"), over]))
    assert said == [delta("!"), text("end"), over]
    assert fed(reader, [*unindexed(OPENING), (9, delta("late"))]) == []
    assert reader.replayed() == []


def test_an_ending_that_the_reader_has_is_the_end_of_a_replay_too() -> None:
    chunks = [*OPENING, text("end"), END_STEP, FINISH]
    reader = reader_of(chunks)
    assert fed(reader, indexed(chunks)) == []
    assert reader.feed(8, delta("late")) == []


@pytest.mark.parametrize("kind", ["finish-step", "reset-step"])
def test_the_end_of_a_step_after_a_replay_is_delivered(kind: str) -> None:
    reader = reader_of(OPENING)
    fed(reader, unindexed([START, STEP, text("start"), delta("Hello!")]))
    assert reader.feed(6, {"type": kind}) == [delta("!"), {"type": kind}]


def test_metadata_that_lost_a_field_is_emptied_first() -> None:
    def told(value: Any) -> Chunk:
        return {"type": "message-metadata", "messageMetadata": {"k": value}}

    reader = reader_of([START, told({"a": 1})])
    fed(reader, unindexed([{**START, "messageMetadata": {"k": {"b": 1}}}]))
    assert reader.replayed() == [told(None), told({"b": 1})]
    assert reader.held.message().metadata == {"k": {"b": 1}}
