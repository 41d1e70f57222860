"""The process dies at every append of jobs, schedules, fibers and states: nothing is lost or acknowledged twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from everyword.core.restore import restore
from everyword.events import FiberEnded, FiberStarted, JobEnded, JobStarted, StateSet, decode_event
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.runtime.rebuild import fold_log
from tests.core.histories import fingerprint
from tests.crash.errands import AGENT, World, done_of, payloads, play
from tests.crash.proofs import check_log, read_all
from tests.crash.world import Crash

APPENDS = 41
"""How many appends the undisturbed script makes: the points to die at. Changes only with the script, or on purpose."""

SLICES = 8
When = Literal["before", "after"]
WHENS: tuple[When, ...] = ("before", "after")


async def look_at(store: LogStore) -> None:
    """Check what a dead process left behind: rows are what the log says, and load to the state that it folds to."""
    check_log(await read_all(store, AGENT))
    state, rows, _ = await fold_log(store, AGENT)
    assert {(row.kind, row.key): row for row in await store.kept(AGENT)} == rows.kept
    loaded = await store.activate(AGENT)
    restored, problems = restore(loaded.agent, loaded.turns, loaded.messages, [], loaded.kept)
    assert not problems
    assert fingerprint(restored) == fingerprint(state)
    assert restored.fibers == state.fibers


async def play_and_check(store: Callable[[], LogStore], crashes: list[Crash]) -> World:
    world = World()
    await play(world, store, crashes, look_at)
    kept = store()
    await kept.open()
    await look_at(kept)
    log = [decode_event(stored.body) for stored in await read_all(kept, AGENT)]
    await check_jobs(world, log)
    check_fibers(world, log)
    assert [bytes(event.state) for event in log if isinstance(event, StateSet)][-1] == b'{"begun":false}'
    assert await kept.next_wake() is None, "nothing is left to be done"
    await kept.aclose()
    return world


async def check_jobs(world: World, log: list[Any]) -> None:
    names = payloads(log)
    added = Counter(names.values())
    assert set(added) == {"a", "b", "c", "flaky", "later", "first", "second", "every", "hang"}
    assert max(added.values()) == 1, "something was put aside twice"
    done = done_of(log)
    assert [each for each in done if each in "abc"] == ["a", "b", "c"]
    assert Counter(each for each in done if each != "every") == Counter(
        {each: 1 for each in added if each not in ("every", "hang")}
    )
    assert done.count("every") >= 2
    finals = Counter(names[event.job] for event in log if isinstance(event, JobEnded) and event.due is None)
    assert finals == added, "every job has one last end"
    assert world.repeated == [], "what was acknowledged was done again"
    effects = Counter(what for _, what in world.effects)
    assert all(effects[what] >= 1 for what in added if what != "hang"), "something was lost"
    runs = [event.run for event in log if isinstance(event, JobStarted) and names[event.job] == "flaky"]
    assert runs == list(range(1, len(runs) + 1))
    by_process = Counter(effect for effect in world.effects if not effect[1].startswith(("every", "flaky")))
    assert set(by_process.values()) == {1}, "one process does a thing once"


def check_fibers(world: World, log: list[Any]) -> None:
    ends = [(event.fiber, event.outcome, event.detail) for event in log if isinstance(event, FiberEnded)]
    assert sorted(ends, key=str) == [("f1", "done", None), ("f2", "cancelled", "enough")]
    starts = [(event.fiber, event.attempt) for event in log if isinstance(event, FiberStarted)]
    assert all(attempt <= world.processes for _, attempt in starts)
    assert len(set(starts)) == len(starts)
    counted = [what for _, what in world.effects if what.startswith("f1-")]
    assert list(dict.fromkeys(counted)) == ["f1-0", "f1-1", "f1-2"], "it went on from its checkpoint"
    assert len(counted) <= 3 + world.processes - 1


@pytest.fixture(scope="module")
def undisturbed() -> World:
    store = MemoryLog()
    return asyncio.run(play_and_check(lambda: store, []))


def test_the_script_has_so_many_points_to_die_at(undisturbed: World) -> None:
    assert undisturbed.appends == [APPENDS]
    assert undisturbed.processes == 1


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("part", range(SLICES))
async def test_dying_at_any_append_loses_no_work_and_acknowledges_none_twice(part: int, when: When) -> None:
    for at in range(part + 1, APPENDS + 1, SLICES):
        store = MemoryLog()
        world = await play_and_check(lambda: store, [Crash(at, when)])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"


@pytest.mark.parametrize("seed", range(6))
async def test_dying_twice_loses_no_work_and_acknowledges_none_twice(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(5):
        first, second = chance.randint(1, APPENDS - 10), chance.choice([1, 2, 3, chance.randint(4, 9)])
        crashes = [Crash(at, chance.choice(WHENS)) for at in (first, second)]
        store = MemoryLog()
        world = await play_and_check(lambda: store, crashes)  # noqa: B023
        assert world.processes == 3, f"{crashes} did not all happen"


@pytest.mark.parametrize("part", range(3))
async def test_dying_over_a_file_loses_no_work_and_acknowledges_none_twice(part: int, tmp_path: Path) -> None:
    for at in range(2 + 3 * part, APPENDS - 10, 9):
        path = tmp_path / f"{at}.db"
        world = await play_and_check(lambda: SqliteLog(path), [Crash(at, WHENS[at % 2])])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
