"""Our fold is the AI SDK's fold: the same message, and the same chunk refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.messages.sequences import Chunk, damaged_sequence, json_object, legal_sequence
from tests.oracle.client import Oracle
from tests.oracle.compare import EMPTY, first_difference, our_fold

BATCH = 300


def test_a_good_servers_chunks_fold_as_in_ai_6(oracle: Oracle) -> None:
    rng = Random("legal 6")
    cases = [legal_sequence(rng) for _ in range(BATCH)]
    assert (difference := first_difference(cases, oracle.fold(6, cases, base=EMPTY))) is None, difference


def test_damaged_streams_fold_as_in_ai_6_up_to_the_chunk_that_it_refuses(oracle: Oracle) -> None:
    rng = Random("damaged 6")
    cases = [damaged_sequence(rng) for _ in range(BATCH)]
    theirs = oracle.fold(6, cases, base=EMPTY)
    refused = sum(answer["error"] is not None for answer in theirs)
    assert BATCH // 5 < refused < BATCH * 4 // 5, "the batch must have both kinds"
    assert (difference := first_difference(cases, theirs)) is None, difference


def test_a_good_servers_chunks_fold_as_in_ai_7(oracle: Oracle) -> None:
    rng = Random("legal 7")
    cases = [legal_sequence(rng, tidy=True, newer=index % 2 == 1) for index in range(2 * BATCH)]
    assert (difference := first_difference(cases, oracle.fold(7, cases, base=EMPTY))) is None, difference


@pytest.mark.parametrize("version", [6, 7])
def test_a_continued_message_folds_as_in_the_sdk(oracle: Oracle, version: int) -> None:
    rng = Random("continued")
    bases, cases = [], []
    for _ in range(BATCH // 2):
        chunks = legal_sequence(rng, tidy=True)
        cut = rng.randrange(1, len(chunks) + 1)
        base = our_fold(chunks[:cut])["message"]
        bases.append(base)
        # An attempt that continues, or a new one: what fits only the old stream must be refused alike.
        cases.append(chunks[cut:] if rng.random() < 0.6 else legal_sequence(rng, tidy=True)[1:])
    theirs = oracle.continue_fold(version, list(zip(bases, cases, strict=True)))
    assert any(answer["error"] is not None for answer in theirs)
    assert (difference := first_difference(cases, theirs, bases)) is None, difference


def test_metadata_of_any_shape_merges_as_in_the_sdk(oracle: Oracle) -> None:
    rng = Random("metadata")

    def some_metadata() -> Any:
        shapes = [json_object(rng, 3), {"a": {"b": 1, "constructor": 2}}, {"prototype": 1}]
        return rng.choice([*shapes, [1, {}], [], "ab", "", 7, True, None])

    cases: list[list[Chunk]] = [
        [{"type": "message-metadata", "messageMetadata": some_metadata()} for _ in range(rng.randrange(1, 4))]
        for _ in range(BATCH)
    ]
    for version in (6, 7):
        theirs = oracle.fold(version, cases, base=EMPTY)
        for answer in theirs:
            if answer["error"] is not None:  # a plain TypeError: it names no chunk
                answer["error"] |= {"type": "message-metadata", "id": ""}
        assert (difference := first_difference(cases, theirs)) is None, difference
