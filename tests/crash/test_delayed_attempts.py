"""The process dies at every append of a turn that is tried again later; no difference is visible afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everyword.errors import ChatError
from everyword.events import AttemptDelayed, Outcome, TurnEnded
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.runtime.directory import Directory
from everyword.runtime.recovery import backoff
from everyword.testing import ManualClock, ScriptedResponder
from tests.crash.proofs import check_log, check_projections, of_kind, read_all
from tests.crash.world import Crash, Person, World, bodies, play
from tests.runtime.kit import AGENT, QUICK

APPENDS = 8
"""How many the turn makes undisturbed; changes only on purpose."""


class Dropped(ChatError):
    """A failure that may pass."""

    retryable = True


def failing(world: World, log: LogStore) -> Directory:
    """Start a process whose answers fail twice, a word further each time."""
    words = {1: ["one ", Dropped("busy")], 2: ["two ", Dropped("busy")]}
    responder = ScriptedResponder(lambda call: words.get(call.attempt, ["three"]))
    return Directory(log, responder, clock=world.clock, settings=QUICK)


async def hurry(clock: ManualClock) -> None:
    """Let the delay of an attempt pass, whenever there is one."""
    while True:
        for attempt in range(2, 6):
            if clock.now() + backoff(attempt) in clock._sleepers.values():
                clock.advance(backoff(attempt) / 1000)
        await asyncio.sleep(0)


async def ask(person: Person) -> None:
    hurrying = asyncio.create_task(hurry(person.world.clock))
    try:
        await person.submit("r1")
        await person.until(lambda: person.world.has(TurnEnded, "r1"))
    finally:
        hurrying.cancel()


async def look_at(store: LogStore) -> None:
    check_log(await read_all(store, AGENT))
    await check_projections(store, AGENT)


async def played(crashes: list[Crash]) -> tuple[World, list[AttemptDelayed]]:
    """Play it, and hold it to its rules; return what was seen and which attempts came later."""
    world, store = World(), MemoryLog()
    await play(world, lambda: store, crashes, look_at, script=[ask], process=failing)
    await store.open()
    log = await read_all(store, AGENT)
    await look_at(store)
    await store.aclose()
    assert bodies(world) == [(stored.seq, stored.body) for stored in log]
    [ended] = of_kind(log, TurnEnded)
    assert ended.outcome is Outcome.COMPLETED
    return world, list(of_kind(log, AttemptDelayed))


async def test_it_has_so_many_points_to_die_at() -> None:
    world, delayed = await played([])
    assert world.appends == [APPENDS]
    assert [each.attempt for each in delayed] == [2, 3]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_dying_at_any_append_delays_no_attempt_twice_and_ends_the_turn_once(when: Any) -> None:
    for at in range(1, APPENDS + 1):
        world, delayed = await played([Crash(at, when)])
        assert world.processes == 2, f"append {at} was never reached"
        attempts = [each.attempt for each in delayed]
        assert attempts == sorted(set(attempts))
