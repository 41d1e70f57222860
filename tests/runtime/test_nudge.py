"""A wake-up is answered where it comes from if it can be; nobody who has to be woken sleeps on."""

from __future__ import annotations

import asyncio

from holdfast.runtime.nudge import Nudge


class Sleeper:
    """A task that waits for nudges and leaves somebody at its place meanwhile."""

    def __init__(self, *, can: bool) -> None:
        self.nudge, self.can = Nudge(), can
        self.looked = self.woken = 0

    def look(self) -> bool:
        self.looked += 1
        return self.can

    async def run(self) -> None:
        while True:
            self.nudge.at_once = self.look
            try:
                await self.nudge.wait()
            finally:
                self.nudge.at_once = None
            self.nudge.clear()
            self.woken += 1


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def nudged(sleeper: Sleeper, times: int) -> None:
    task = asyncio.create_task(sleeper.run())
    await turns()
    for _ in range(times):
        sleeper.nudge.set()
    assert sleeper.looked == times, "at once"
    await turns()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_can_be_done_at_once_wakes_nobody() -> None:
    sleeper = Sleeper(can=True)
    await nudged(sleeper, 1)
    assert (sleeper.looked, sleeper.woken) == (1, 0)


async def test_what_cannot_be_done_at_once_wakes_the_task() -> None:
    sleeper = Sleeper(can=False)
    await nudged(sleeper, 1)
    assert (sleeper.looked, sleeper.woken) == (1, 1)


async def test_a_task_that_has_to_be_woken_is_woken_once_for_all_that_came() -> None:
    sleeper = Sleeper(can=False)
    await nudged(sleeper, 3)
    assert sleeper.woken == 1


async def test_a_nudge_of_a_task_that_is_awake_is_there_when_it_waits_next() -> None:
    nudge = Nudge()
    nudge.set()
    assert await asyncio.wait_for(nudge.wait(), 10)


async def test_a_nudge_is_not_lost_when_the_task_has_left() -> None:
    sleeper = Sleeper(can=True)
    task = asyncio.create_task(sleeper.run())
    await turns()
    task.cancel()
    await turns()
    sleeper.nudge.set()
    assert sleeper.nudge.is_set()
    assert sleeper.looked == 0
    assert task.cancelled()
