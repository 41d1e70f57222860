"""Two to four nodes that share a database, played from seeds: whatever happens to them, clients see one log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from everyword.testing.simulated_postgres import writes
from everyword.testing.simulated_postgres.server import Call
from everyword.testing.simulation import Run, simulate

SEEDS, PARTS = 100, 10


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


# -- the simulation finds what is wrong ------------------------------------------------------------------------------


def appends_without_a_fence() -> AbstractContextManager[Any]:
    @contextmanager
    def open_to_all(self: Call, node: int, generation: int) -> Iterator[None]:
        yield

    return patch.object(Call, "fence", open_to_all)


def claims_that_take_agents_of_live_nodes() -> AbstractContextManager[Any]:
    return patch.object(writes, "_is_free", lambda tables, root, node: tables.agents[root].node != node)


BUGS: dict[Callable[[], AbstractContextManager[Any]], str] = {
    appends_without_a_fence: "N-2",
    claims_that_take_agents_of_live_nodes: "errors",
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_seeded_bug_is_found_within_a_few_hundred_seeds(bug: Callable[[], AbstractContextManager[Any]]) -> None:
    check = BUGS[bug]
    for seed in range(3 * SEEDS):
        with bug():
            run = simulate(seed, nodes=True)
        if any(name == check for name, _ in run.problems):
            return
    pytest.fail(f"{3 * SEEDS} seeds did not find {bug.__name__}")
