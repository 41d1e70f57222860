"""The clock of the test kit: it moves in seconds, and wakes the tasks that wait for that time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from everyword.errors import UsageError
from everyword.ids import Millis
from everyword.testing import ManualClock


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [(1, 1_000), (0.05, 50), (0.001, 1), (0, 0), (timedelta(minutes=1), 60_000), (timedelta(milliseconds=7), 7)],
)
def test_time_passes_in_seconds_or_by_a_timedelta(given: Any, milliseconds: int) -> None:
    clock = ManualClock(5)
    clock.advance(given)
    assert clock.now() == 5 + milliseconds
    clock.advance(given)
    assert clock.now() == 5 + 2 * milliseconds


async def test_a_sleeper_is_woken_at_its_moment_and_not_before() -> None:
    clock = ManualClock(0)
    sleeping = asyncio.create_task(clock.sleep_until(Millis(1_000)))
    await asyncio.sleep(0)
    clock.advance(0.999)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(0.001)
    await sleeping
    assert clock.now() == 1_000


@pytest.mark.parametrize("given", [-1, timedelta(seconds=-1), "5", None, True])
def test_time_does_not_go_back_and_is_no_text(given: Any) -> None:
    clock = ManualClock()
    before = clock.now()
    with pytest.raises(UsageError, match=r"unable to advance by .*; give seconds or a timedelta, 0 or more"):
        clock.advance(given)
    assert clock.now() == before
