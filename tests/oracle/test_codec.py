"""Replays, compacted rests and late joins are streams that the AI SDK folds."""

from __future__ import annotations

from random import Random

import pytest

from everyword.client.protocol.late_join import LateJoin
from everyword.codec.compact import compact, replay_from_fold
from everyword.codec.encode import encode_message
from everyword.messages.fold import MessageFold
from everyword.messages.normaliser import Normaliser
from tests.messages.sequences import Chunk, hostile_sequence
from tests.oracle.client import Oracle
from tests.oracle.compare import EMPTY, first_difference

BATCH = 150


def streams(seed: str) -> tuple[Random, list[list[Chunk]]]:
    rng, found = Random(seed), []
    for _ in range(BATCH):
        normaliser = Normaliser("m1")
        chunks = [chunk for item in hostile_sequence(rng) for chunk in normaliser.feed(item)]
        found.append([*chunks, *normaliser.finish()])
    return rng, found


def folded(chunks: list[Chunk]) -> MessageFold:
    fold = MessageFold("m1")
    for chunk in chunks:
        fold.apply(chunk)
    return fold


@pytest.mark.parametrize("version", [6, 7])
def test_a_replay_and_its_compacted_rest_fold_in_the_sdk(oracle: Oracle, version: int) -> None:
    rng, found = streams("replay")
    cases = []
    for chunks in found:
        cut = rng.randrange(len(chunks) + 1)
        rest = compact(list(enumerate(chunks))[cut:])
        cases.append([*replay_from_fold(folded(chunks[:cut])), *(chunk for _, chunk in rest)])
    assert (difference := first_difference(cases, oracle.fold(version, cases, base=EMPTY))) is None, difference
    assert not any(oracle.rejected(version, cases))


@pytest.mark.parametrize("version", [6, 7])
def test_a_stored_message_replays_in_the_sdk(oracle: Oracle, version: int) -> None:
    _, found = streams("stored")
    cases = [encode_message(folded(chunks).message(), is_replay=True) for chunks in found]
    assert (difference := first_difference(cases, oracle.fold(version, cases, base=EMPTY))) is None, difference
    assert not any(oracle.rejected(version, cases))


@pytest.mark.parametrize("version", [6, 7])
def test_a_late_join_folds_in_the_sdk(oracle: Oracle, version: int) -> None:
    rng, found = streams("join")
    cases = []
    for chunks in found:
        join = LateJoin("m1")
        cases.append([out for chunk in chunks[rng.randrange(len(chunks) + 1) :] for out in join.feed(chunk)])
    answers = oracle.fold(version, cases, base=EMPTY)
    assert [answer["error"] for answer in answers if answer["error"] is not None] == []
    assert (difference := first_difference(cases, answers)) is None, difference
