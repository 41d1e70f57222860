"""Every important test is shown to fail: a bug is put into a copy of the source, and its witness must notice."""

from __future__ import annotations

import pytest

from tests.mutants.bug import Bug
from tests.mutants.catalogue import ALL, HARMLESS
from tests.mutants.trials import Trials


@pytest.mark.slow
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug, next_bug: Bug | None, trials: Trials) -> None:
    trials.start(bug)
    if next_bug is not None:
        trials.start(next_bug)
    verdict = trials.verdict(bug)
    end = verdict.said[-2000:]
    assert verdict.code == 1, f"{bug.witness} does not notice: {bug.why}\n{end}"
    assert verdict.is_failure, f"the witness broke instead of failing\n{end}"


@pytest.mark.slow
def test_a_harmless_change_is_not_caught(trials: Trials) -> None:
    """Otherwise a witness that fails for other reasons would catch everything."""
    for verdict in (trials.run_in_memory(HARMLESS), trials.run_from_source(HARMLESS)):
        assert verdict.code == 0, verdict.said[-2000:]
