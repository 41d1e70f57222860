"""The process dies at every append there is, before it and after it; no difference is visible afterwards.

Two dozen turns are played to their end however often the process dies under them: scene by scene, by agents of both
base classes and by what is below them, and all in one go. What people saw is in the log, every turn ends once, and the
conversation is the one of the run in which nothing happened (I-3, I-8, I-9, I-12).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from everyword.events import AttemptStarted, CallAnswered, Outcome, TurnAccepted, TurnEnded
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from tests.agents.bases import BASES
from tests.crash.proofs import Outcomes, check_log, check_projections, of_kind, outcomes, read_all
from tests.crash.world import SCENES, SPOKEN, STEPS, Crash, Step, World, bodies, play, scripted, speaking
from tests.runtime.kit import AGENT

BELOW = "below"
"""Plays the scenes without either base class."""

APPENDS = {
    BELOW: {
        "tools": 34,
        "approvals": 29,
        "mid-stream": 14,
        "errors": 17,
        "versions": 18,
        "stop": 11,
        "clear": 11,
        "queue": 21,
    },
    "AIChatAgent": {"errors": 21, "versions": 24, "stop": 14, "clear": 14, "queue": 29},
    "Think": {"errors": 30, "versions": 33, "stop": 18, "clear": 18, "queue": 41},
}
"""How many appends a scene makes undisturbed: the points to die at. Changes only with the script, or on purpose."""

EVERYTHING = 132
"""How many all scenes make, played as one."""

WHENS = ("before", "after")
SLICES = 4
PLAYERS = {BELOW: scripted, **{base: speaking(base) for base in BASES}}
PLAYED = [(who, scene) for who in PLAYERS for scene in (SCENES if who == BELOW else SPOKEN)]


async def look_at(store: LogStore) -> None:
    """Check what a dead process left behind, before the next process repairs anything."""
    check_log(await read_all(store, AGENT))
    await check_projections(store, AGENT)


async def play_and_check(
    store: Callable[[], LogStore],
    crashes: list[Crash],
    expected: Outcomes | None,
    *,
    who: str = BELOW,
    script: Sequence[Step] = STEPS,
) -> World:
    world = World()
    await play(world, store, crashes, look_at, script=script, process=PLAYERS[who])
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
        assert outcomes(log, has_steps=who == BELOW) == expected
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


async def play_undisturbed(who: str, script: Sequence[Step]) -> tuple[World, Outcomes]:
    store = MemoryLog()
    world = await play_and_check(lambda: store, [], None, who=who, script=script)
    await store.open()
    return world, outcomes(await read_all(store, AGENT), has_steps=who == BELOW)


@pytest.fixture(scope="module")
def scenes() -> dict[tuple[str, str], tuple[World, Outcomes]]:
    async def run() -> dict[tuple[str, str], tuple[World, Outcomes]]:
        return {(who, scene): await play_undisturbed(who, SCENES[scene]) for who, scene in PLAYED}

    return asyncio.run(run())


@pytest.fixture(scope="module")
def undisturbed() -> tuple[World, Outcomes]:
    return asyncio.run(play_undisturbed(BELOW, STEPS))


def test_the_scenes_have_so_many_points_to_die_at(
    scenes: dict[tuple[str, str], tuple[World, Outcomes]], undisturbed: tuple[World, Outcomes]
) -> None:
    counted = {who: {scene: scenes[who, scene][0].appends for at, scene in PLAYED if at == who} for who in PLAYERS}
    assert counted == {who: {scene: [number] for scene, number in each.items()} for who, each in APPENDS.items()}
    world, expected = undisturbed
    assert world.appends == [EVERYTHING]
    assert len(expected.endings) >= 12
    assert {outcome for outcome, *_ in expected.endings.values()} == set(Outcome)


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize(("who", "scene"), PLAYED)
async def test_dying_at_any_append_changes_nothing_that_clients_saw(
    scenes: dict[tuple[str, str], tuple[World, Outcomes]], who: str, scene: str, when: Any
) -> None:
    """P-15."""
    undisturbed, expected = scenes[who, scene]
    for at in range(1, undisturbed.appends[0] + 1):
        store = MemoryLog()
        crashes = [Crash(at, when)]
        world = await play_and_check(lambda: store, crashes, expected, who=who, script=SCENES[scene])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"


@pytest.mark.parametrize("when", WHENS)
async def test_dying_in_a_long_conversation_changes_nothing_that_clients_saw(
    undisturbed: tuple[World, Outcomes], when: Any
) -> None:
    for at in range(1 if when == "before" else SLICES // 2, EVERYTHING + 1, SLICES):
        store = MemoryLog()
        world = await play_and_check(lambda: store, [Crash(at, when)], undisturbed[1])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"


@pytest.mark.parametrize("seed", range(4))
async def test_dying_twice_changes_nothing_that_clients_saw(undisturbed: tuple[World, Outcomes], seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(6):
        first, second = chance.randint(1, EVERYTHING - 10), chance.choice([1, 2, 3, chance.randint(4, 10)])
        crashes = [Crash(at, chance.choice(WHENS)) for at in (first, second)]  # type: ignore[arg-type]
        store = MemoryLog()
        world = await play_and_check(lambda: store, crashes, undisturbed[1])  # noqa: B023
        assert world.processes == 3, f"{crashes} did not all happen"


@pytest.mark.parametrize("part", range(4))
async def test_dying_over_a_file_changes_nothing_that_clients_saw(
    undisturbed: tuple[World, Outcomes], part: int, tmp_path: Path
) -> None:
    # Two of the script's commits may become one where a disk takes its time: the last points may not be reached.
    for at in range(2 + 7 * part, EVERYTHING - 10, 28):
        path = tmp_path / f"{at}.db"
        crash = Crash(at, WHENS[at % 2])  # type: ignore[arg-type]
        world = await play_and_check(lambda: SqliteLog(path), [crash], undisturbed[1])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
