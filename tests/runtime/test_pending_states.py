"""States that are on their way to the log."""

from __future__ import annotations

import asyncio

import pytest

from everyword.errors import LogUnavailable
from everyword.runtime.pending_states import PendingStates


def reply() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def test_the_newest_state_is_the_last_one_set_overall_or_by_one_caller() -> None:
    states, me, other = PendingStates(), object(), object()
    first, second = reply(), reply()
    assert (states.newest(), states.newest(me), states.are_waiting) == (None, None, False)
    states.add(b"1", me, first)
    states.add(b"2", other, second)
    assert (states.newest(), states.newest(me), states.newest(other)) == (b"2", b"1", b"2")
    first.set_result(None)
    await asyncio.sleep(0)
    assert (states.newest(), states.newest(me), states.are_waiting) == (b"2", None, True)
    second.set_result(None)
    await asyncio.sleep(0)
    assert (states.newest(), states.are_waiting) == (None, False)


async def test_a_state_that_failed_is_not_read_from_that_moment_on() -> None:
    states, first, second = PendingStates(), reply(), reply()
    states.add(b"1", None, first)
    states.add(b"2", None, second)
    first.set_exception(LogUnavailable("unable to append"))
    second.set_exception(LogUnavailable("unable to append"))
    assert states.newest() is None, "before anybody was told, so that nothing is built on it"


async def test_what_waits_is_done_in_order_once_all_that_were_set_before_it_are_committed() -> None:
    states, done = PendingStates(), list[int]()
    states.then(lambda: done.append(0))
    assert done == [0], "at once, when nothing waits"
    first, second = reply(), reply()
    states.add(b"1", None, first)
    states.then(lambda: done.append(1))
    states.add(b"2", None, second)
    states.then(lambda: done.append(2))
    states.then(lambda: done.append(3))
    first.set_result(None)
    await asyncio.sleep(0)
    assert done == [0, 1], "states that are set without end do not hold it up"
    second.set_result(None)
    await asyncio.sleep(0)
    assert done == [0, 1, 2, 3]


async def test_what_waits_for_a_state_that_cannot_be_committed_is_dropped_and_awaiting_raises() -> None:
    states, done, failing = PendingStates(), list[int](), reply()
    states.add(b"1", None, failing)
    states.then(lambda: done.append(1))
    waiting = asyncio.create_task(states.committed())
    await asyncio.sleep(0)
    failing.set_exception(LogUnavailable("unable to append"))
    with pytest.raises(LogUnavailable):
        await waiting
    assert done == []
    await states.committed()
