from __future__ import annotations

from random import Random

from hypothesis import given

from everyword.client.protocol.catch_up import catch_up, open_part_ids
from everyword.messages.fold import MessageFold
from tests.messages.sequences import Chunk, legal_sequence, seeded

START: Chunk = {"type": "start", "messageId": "m1"}
STEP: Chunk = {"type": "start-step"}
FILE: Chunk = {"type": "file", "url": "https://example.org", "mediaType": "image/png"}


def folded(chunks: list[Chunk]) -> MessageFold:
    fold = MessageFold("m1")
    for chunk in chunks:
        fold.apply(chunk)
    return fold


def text(moment: str, name: str = "t", **fields: object) -> Chunk:
    return {"type": f"text-{moment}", "id": name, **fields}


@given(seeded())
def test_the_missing_chunks_lead_from_any_state_to_any_later_one(rng: Random) -> None:
    chunks = legal_sequence(rng)
    cut = rng.randrange(1, len(chunks) + 1)
    held, told = folded(chunks[: rng.randrange(1, cut + 1)]), folded(chunks[:cut])
    missing = catch_up(held, told)
    assert missing is not None
    for chunk in missing:
        held.apply(chunk)
    assert held.message() == told.message()
    assert catch_up(held, told) == []


@given(seeded())
def test_looking_for_missing_chunks_changes_nothing(rng: Random) -> None:
    chunks = legal_sequence(rng)
    held, told = folded(chunks[: len(chunks) // 2]), folded(chunks)
    before = held.message(), held.open_parts, told.message(), told.open_parts
    catch_up(held, told)
    assert (held.message(), held.open_parts, told.message(), told.open_parts) == before


def test_a_message_that_lost_a_part_cannot_be_caught_up_with() -> None:
    assert catch_up(folded([START, STEP, FILE]), folded([START, STEP])) is None


def test_a_message_with_another_part_in_the_place_cannot_be_caught_up_with() -> None:
    other = {**FILE, "url": "https://example.org/other"}
    assert catch_up(folded([START, STEP, FILE]), folded([START, STEP, other])) is None
    assert catch_up(folded([START, STEP, FILE]), folded([START, STEP, text("start")])) is None


def test_a_data_part_is_brought_up_to_date_in_its_place() -> None:
    before, after = ({"type": "data-note", "id": "n", "data": n} for n in (1, 2))
    assert catch_up(folded([START, before, FILE]), folded([START, after, FILE])) == [after]


def test_provider_metadata_comes_with_the_last_chunk_of_its_part_or_alone() -> None:
    metadata = {"p": {"n": 1}}
    opening = [START, STEP, text("start")]
    alone = text("delta", delta="", providerMetadata=metadata)
    assert catch_up(folded(opening), folded([*opening, alone])) == [alone]
    ended = [*opening, text("delta", delta="a"), text("end", providerMetadata=metadata)]
    assert catch_up(folded(opening), folded(ended)) == ended[3:]


def test_citations_come_with_the_end() -> None:
    opening, end = [START, STEP, text("start")], text("end", citations=[{"source": {}}])
    assert catch_up(folded(opening), folded([*opening, end])) == [end]


def test_a_new_part_takes_no_id_that_is_in_use() -> None:
    opening = [START, text("start", "part-1")]
    told = [*opening, text("start", "z"), text("delta", "z", delta="a"), text("end", "z")]
    missing = catch_up(folded(opening), folded(told))
    assert missing is not None
    assert {chunk["id"] for chunk in missing} == {"part-1'"}


def test_open_parts_are_matched_by_their_places() -> None:
    held = folded([START, text("start", "ours"), text("start", "both")])
    told = folded([START, text("start", "theirs"), text("start", "both")])
    assert open_part_ids(held, told) == {("text", "theirs"): "ours"}
