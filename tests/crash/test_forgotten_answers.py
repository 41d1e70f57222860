"""The process dies at every append of an answer that is stopped and forgotten, and nothing of it is ever kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everyword.errors import ChatError
from everyword.events import AttemptStarted, MessageEnded, Outcome, TurnEnded
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.runtime.directory import Directory
from everyword.runtime.recovery import Recovery, Stop
from everyword.testing import ScriptedResponder
from tests.crash.proofs import check_log, check_projections, of_kind, read_all
from tests.crash.test_delayed_attempts import hurry
from tests.crash.world import Crash, Person, World, bodies, play
from tests.runtime.kit import AGENT, QUICK

APPENDS = 4
"""How many the turn makes undisturbed; changes only on purpose."""


class Dropped(ChatError):
    """A failure that may pass."""

    retryable = True


class Forgetting(ScriptedResponder):
    """Fails in the middle, and does not want to go on."""

    async def on_recovery(self, recovery: Recovery) -> Stop:
        return Stop("Please ask again.", forget=True)

    async def on_exhausted(self, recovery: Recovery) -> None:
        raise AssertionError("it is never given up: the first recovery ends it")


def failing(world: World, log: LogStore) -> Directory:
    return Directory(log, Forgetting(["half ", Dropped("busy")]), clock=world.clock, settings=QUICK)


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


async def played(crashes: list[Crash]) -> World:
    world, store = World(), MemoryLog()
    await play(world, lambda: store, crashes, look_at, script=[ask], process=failing)
    await store.open()
    log = await read_all(store, AGENT)
    await look_at(store)
    assert [row.role for row in (await store.conversation(AGENT))[1] if row.body is not None] == ["user"]
    await store.aclose()
    assert bodies(world) == [(stored.seq, stored.body) for stored in log]
    [ended] = of_kind(log, TurnEnded)
    assert (ended.outcome, ended.error) == (Outcome.ERROR, "Please ask again.")
    assert [event.fresh for event in of_kind(log, AttemptStarted)] == [False, True]
    assert not list(of_kind(log, MessageEnded))
    return world


async def test_it_has_so_many_points_to_die_at() -> None:
    assert (await played([])).appends == [APPENDS]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_dying_at_any_append_keeps_nothing_and_ends_the_turn_once(when: Any) -> None:
    for at in range(1, APPENDS + 1):
        world = await played([Crash(at, when)])
        assert world.processes == 2, f"append {at} was never reached"
