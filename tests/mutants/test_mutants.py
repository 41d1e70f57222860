"""Every important test is shown to fail: a bug is put into a copy of the source, and its witness must notice."""

from __future__ import annotations

import re

import pytest

from tests.mutants.bug import Bug
from tests.mutants.catalogue import ALL
from tests.mutants.changes import replace
from tests.mutants.trials import Trials

BROKE = re.compile(
    r"\b[1-9]\d* errors?\b|pytest-timeout"
    r"|NameError: |UnboundLocalError: |SyntaxError: |AttributeError: (?!'NoneType' object)"
)
"""A witness that did not find the bug, but code that cannot run: a change that was not kept up with the source."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug, next_bug: Bug | None, trials: Trials) -> None:
    trials.start(bug)
    if next_bug is not None:
        trials.start(next_bug)
    verdict = trials.verdict(bug)
    end = verdict.said[-2000:]
    assert verdict.code == 1, f"{bug.witness} does not notice: {bug.why}\n{end}"
    assert re.search(r"\b[1-9]\d* failed\b", verdict.said), f"the witness broke instead of failing\n{end}"
    assert not BROKE.search(verdict.said), f"the witness broke instead of failing\n{end}"


@pytest.mark.slow
def test_a_harmless_change_is_not_caught(trials: Trials) -> None:
    """Otherwise a witness that fails for other reasons would catch everything."""
    witness = "tests/core/test_transcript.py::test_only_chunks_of_old_ended_answers_may_go"
    change = replace("$kind is not TurnKind.RSM", "not ($kind is TurnKind.RSM)")
    verdict = trials.verdict(Bug("core:turn_is_prunable", "nothing", change, witness, "nothing changes for any client"))
    assert verdict.code == 0, verdict.said[-2000:]
