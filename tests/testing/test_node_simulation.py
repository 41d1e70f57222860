"""Two to four nodes that share a database, played from seeds: whatever happens to them, clients see one log."""

from __future__ import annotations

from functools import cache

import pytest

from everyword.testing.simulation import Run, simulate

SEEDS, PARTS = 150, 10


@cache
def simulated(seed: int) -> Run:
    """Return the run of a seed without a bug. Each worker runs a seed once; its tests look at the same run."""
    return simulate(seed, nodes=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_to_the_nodes_clients_see_one_log(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        run = simulated(seed)
        assert not run.problems, run.report()


@pytest.mark.parametrize("seed", [200])
def test_what_a_seed_found_once_stays_mended(seed: int) -> None:
    run = simulated(seed)
    assert not run.problems, run.report()


def test_the_same_seed_gives_the_same_trace_byte_for_byte() -> None:
    for seed in range(5):
        assert simulate(seed, nodes=True).trace == simulated(seed).trace
