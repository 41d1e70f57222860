"""Two to four nodes that share a database, played from seeds: whatever happens to them, clients see one log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from everyword.ids import Millis
from everyword.log.postgres import store
from everyword.log.postgres.membership import Membership
from everyword.runtime.directory import Directory
from everyword.testing.simulated_postgres import writes
from everyword.testing.simulated_postgres.server import STATEMENTS, Call
from everyword.testing.simulated_postgres.tables import FenceRecord, Row
from everyword.testing.simulation import Run, nodes_play, simulate
from everyword.testing.simulation.node_run import NodeRun

SEEDS, PARTS = 300, 20


@cache
def simulated(seed: int) -> Run:
    """Return the run of a seed without a bug. Each worker runs a seed once; its tests look at the same run."""
    return simulate(seed, nodes=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_to_the_nodes_clients_see_one_log(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        run = simulated(seed)
        assert not run.problems, run.report()


@pytest.mark.parametrize("seed", [7, 53, 95, 149, 200, 204, 300, 1808])
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


def nodes_that_are_declared_gone_without_a_lock() -> AbstractContextManager[Any]:
    """A commit that is under way then comes after the takeover."""

    async def at_once(self: Call, fence: FenceRecord) -> None: ...

    return patch.object(Call, "alone", at_once)


def a_lost_lease_that_drops_nothing() -> AbstractContextManager[Any]:
    return patch.object(Directory, "drop_all", lambda self, why: None)


def time_that_goes_back_after_a_takeover() -> AbstractContextManager[Any]:
    activation = store._activation
    return patch.object(store, "_activation", lambda found: replace(activation(found), last_at=Millis(0)))


def sockets_that_stay_with_a_gone_node() -> AbstractContextManager[Any]:
    return patch.object(NodeRun, "cut_relay", lambda self, link: None)


def releases_by_the_key_alone() -> AbstractContextManager[Any]:
    """Neither the fence nor the term: each of the two is enough."""

    async def release(call: Call, node: int, generation: int, roots: Sequence[int], terms: Sequence[int]) -> list[Row]:
        await call.work()
        for key in roots:
            if (root := call.tables.agents.get(key)) is not None:
                root.node = None
        return []

    return patch.dict(STATEMENTS, {"release": release})


def serials_without_the_mark_of_the_process() -> AbstractContextManager[Any]:
    return patch.object(nodes_play, "_Mark", lambda world: "same")


def lost_answers_to_claims_that_are_not_asked_for() -> AbstractContextManager[Any]:
    """A claim whose answer is lost leaves agents with a node that does not know their wake times."""
    never = property(lambda self: False, lambda self, value: None)
    return patch.object(Membership, "may_own_unknown", never, create=True)


BUGS: dict[Callable[[], AbstractContextManager[Any]], tuple[str, int]] = {
    appends_without_a_fence: ("N-2", 0),
    claims_that_take_agents_of_live_nodes: ("errors", 0),
    nodes_that_are_declared_gone_without_a_lock: ("N-2", 0),
    a_lost_lease_that_drops_nothing: ("N-4", 0),
    time_that_goes_back_after_a_takeover: ("time", 0),
    sockets_that_stay_with_a_gone_node: ("N-5", 10),
    releases_by_the_key_alone: ("owners", 10),
    serials_without_the_mark_of_the_process: ("ids", 0),
    lost_answers_to_claims_that_are_not_asked_for: ("owners", 90),
}
"""The check that finds each bug, and where to begin: not at 0 if that takes too long."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_seeded_bug_is_found_within_a_few_hundred_seeds(bug: Callable[[], AbstractContextManager[Any]]) -> None:
    check, first = BUGS[bug]
    for seed in range(first, first + SEEDS):
        with bug():
            run = simulate(seed, nodes=True)
        if any(name == check for name, _ in run.problems):
            return
    pytest.fail(f"{SEEDS} seeds did not find {bug.__name__}")
