"""What leaves the normaliser is accepted and folded alike by every client, whatever went in."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.messages.normaliser import Normaliser
from tests.messages.sequences import Chunk, hostile_sequence
from tests.oracle.client import Oracle
from tests.oracle.compare import EMPTY, first_difference

BATCH = 300


def normalised(items: list[Any], normaliser: Normaliser, *, cut: int | None = None) -> list[Chunk]:
    chunks = [chunk for item in items for chunk in normaliser.feed(item)]
    whole = [*chunks, *normaliser.finish()]
    return whole if cut is None else chunks[:cut]


def hostile_batch(seed: str) -> list[list[Any]]:
    rng = Random(seed)
    return [hostile_sequence(rng) for _ in range(BATCH)]


def refusals(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [answer["error"] for answer in answers if answer["error"] is not None]


def rejected_chunks(oracle: Oracle, version: int, cases: list[list[Chunk]]) -> list[Chunk]:
    answers = oracle.rejected(version, cases)
    return [cases[case][index] for case, indices in enumerate(answers) for index in indices]


def test_hostile_streams_come_out_fit_for_ai_6_and_7_alike(oracle: Oracle) -> None:
    cases = [normalised(items, Normaliser("m1")) for items in hostile_batch("hostile")]
    for version in (6, 7):
        answers = oracle.fold(version, cases, base=EMPTY)
        assert refusals(answers) == []
        assert (difference := first_difference(cases, answers)) is None, difference
        assert rejected_chunks(oracle, version, cases) == []


def test_hostile_streams_with_newer_chunks_come_out_fit_for_ai_7(oracle: Oracle) -> None:
    cases = [normalised(items, Normaliser("m1", newer=True)) for items in hostile_batch("hostile newer")]
    answers = oracle.fold(7, cases, base=EMPTY)
    assert refusals(answers) == []
    assert (difference := first_difference(cases, answers)) is None, difference
    assert rejected_chunks(oracle, 7, cases) == []


@pytest.mark.parametrize("version", [6, 7])
@pytest.mark.parametrize("closed", [True, False], ids=["parts closed first", "parts left open"])
def test_a_second_attempt_fits_behind_the_first_wherever_that_was_cut(
    oracle: Oracle, version: int, closed: bool
) -> None:
    rng, cases = Random("second attempt"), []
    for _ in range(BATCH // 2):
        before = normalised(hostile_sequence(rng), Normaliser("m1"), cut=rng.randrange(1, 30))
        fold = MessageFold("m1")
        for chunk in before:
            fold.apply(chunk)
        ends = fold.closing_chunks() if closed else []
        # Providers and scripted models alike may repeat ids of the first attempt.
        again = Normaliser("m1", base=fold.message(), first_attempt=False)
        cases.append([*before, *ends, *normalised(hostile_sequence(rng), again)])
    answers = oracle.fold(version, cases, base=EMPTY)
    assert refusals(answers) == []
    if version == 6 or closed:
        assert (difference := first_difference(cases, answers)) is None, difference
    assert rejected_chunks(oracle, version, cases) == []


@pytest.mark.parametrize("version", [6, 7])
def test_a_continuation_fits_the_message_that_it_extends(oracle: Oracle, version: int) -> None:
    rng, bases, cases = Random("continuation"), [], []
    for _ in range(BATCH // 2):
        fold = MessageFold("m1")
        for chunk in normalised(hostile_sequence(rng), Normaliser("m1")):
            fold.apply(chunk)
        bases.append(fold.message().to_dict())
        again = Normaliser("m1", base=UIMessage.from_dict(bases[-1]))
        cases.append(normalised(hostile_sequence(rng), again))
    answers = oracle.continue_fold(version, list(zip(bases, cases, strict=True)))
    assert refusals(answers) == []
    assert (difference := first_difference(cases, answers, bases)) is None, difference
    assert rejected_chunks(oracle, version, cases) == []
