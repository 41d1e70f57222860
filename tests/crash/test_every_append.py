"""The process dies at every append there is, before it and after it, and nobody can tell afterwards.

One script of two dozen turns is played to its end however often the process dies under it. What people saw is in the
log, every turn ends once, and the conversation is the one of the run in which nothing happened (I-3, I-8, I-9, I-12).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.events import AttemptStarted, CallAnswered, Outcome, TurnAccepted, TurnEnded
from holdfast.log.base import LogStore
from holdfast.log.memory import MemoryLog
from holdfast.log.sqlite.store import SqliteLog
from tests.crash.proofs import Outcomes, check_log, check_projections, of_kind, outcomes, read_all
from tests.crash.world import Crash, World, bodies, play
from tests.runtime.kit import AGENT

APPENDS = 148
"""How many appends the undisturbed script makes: the points to die at. Changes only with the script, or on purpose."""

SLICES = 16
WHENS = ("before", "after")


async def look_at(store: LogStore) -> None:
    """Check what a dead process left behind, before anybody repairs anything."""
    check_log(await read_all(store, AGENT))
    await check_projections(store, AGENT)


async def play_and_check(store: Callable[[], LogStore], crashes: list[Crash], expected: Outcomes | None) -> World:
    world = World()
    await play(world, store, crashes, look_at)
    kept = store()
    await kept.open()
    log = await read_all(kept, AGENT)
    await look_at(kept)
    await kept.aclose()
    assert bodies(world) == [(stored.seq, stored.body) for stored in log]
    ends = Counter(event.turn for event in of_kind(log, TurnEnded))
    assert ends == Counter(event.turn for event in of_kind(log, TurnAccepted))
    assert all(count == 1 for count in Counter(event.call for event in of_kind(log, CallAnswered)).values())
    assert max(event.attempt for event in of_kind(log, AttemptStarted)) <= world.processes
    check_hooks(world)
    if expected is not None:
        assert outcomes(log) == expected
    return world


def check_hooks(world: World) -> None:
    """Every turn that was not skipped is told of, once per process, and again only as recovered (R-28)."""
    ended = {event.turn for event in world.events(TurnEnded) if event.outcome is not Outcome.SKIPPED}
    assert {result.turn for _, result in world.told} == ended
    assert all(count == 1 for count in Counter((process, result.turn) for process, result in world.told).values())
    first = set[int]()
    for _, result in world.told:
        assert result.turn not in first or result.recovered
        first.add(result.turn)


@pytest.fixture(scope="module")
def undisturbed() -> tuple[World, Outcomes]:
    async def run() -> tuple[World, Outcomes]:
        store = MemoryLog()
        world = await play_and_check(lambda: store, [], None)
        await store.open()
        return world, outcomes(await read_all(store, AGENT))

    return asyncio.run(run())


def test_the_script_has_so_many_points_to_die_at(undisturbed: tuple[World, Outcomes]) -> None:
    world, expected = undisturbed
    assert world.appends == [APPENDS]
    assert len(expected.endings) >= 12
    assert {outcome for outcome, *_ in expected.endings.values()} == set(Outcome)


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("part", range(SLICES))
async def test_dying_at_any_append_changes_nothing_that_anybody_was_told(
    undisturbed: tuple[World, Outcomes], part: int, when: str
) -> None:
    """P-15."""
    for at in range(part + 1, APPENDS + 1, SLICES):
        store = MemoryLog()
        world = await play_and_check(lambda: store, [Crash(at, when)], undisturbed[1])  # type: ignore[arg-type] # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"


@pytest.mark.parametrize("seed", range(8))
async def test_dying_twice_changes_nothing_that_anybody_was_told(
    undisturbed: tuple[World, Outcomes], seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(6):
        first, second = chance.randint(1, APPENDS - 10), chance.choice([1, 2, 3, chance.randint(4, 10)])
        crashes = [Crash(at, chance.choice(WHENS)) for at in (first, second)]  # type: ignore[arg-type]
        store = MemoryLog()
        world = await play_and_check(lambda: store, crashes, undisturbed[1])  # noqa: B023
        assert world.processes == 3, f"{crashes} did not all happen"


@pytest.mark.parametrize("part", range(4))
async def test_dying_over_a_file_changes_nothing_that_anybody_was_told(
    undisturbed: tuple[World, Outcomes], part: int, tmp_path: Path
) -> None:
    # Two of the script's commits may become one where a disk takes its time: the last points may not be reached.
    for at in range(2 + 7 * part, APPENDS - 10, 28):
        path = tmp_path / f"{at}.db"
        crash = Crash(at, WHENS[at % 2])  # type: ignore[arg-type]
        world = await play_and_check(lambda: SqliteLog(path), [crash], undisturbed[1])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
