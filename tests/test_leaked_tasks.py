"""Tests of `tests/leaked_tasks.py`."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator

import pytest

from tests.leaked_tasks import fail_on_leaked_tasks


def test_a_task_left_running_fails_the_test() -> None:
    async def leaving() -> None:
        asyncio.create_task(asyncio.Event().wait(), name="left behind")  # noqa: RUF006

    with pytest.raises(AssertionError, match=r"left running.*left behind"):
        asyncio.run(fail_on_leaked_tasks(leaving()))


def test_tasks_started_before_the_test_are_ignored() -> None:
    async def run() -> None:
        other = asyncio.create_task(asyncio.Event().wait())
        await fail_on_leaked_tasks(asyncio.sleep(0))
        assert not other.done()
        other.cancel()

    asyncio.run(run())


def test_a_generator_closed_by_the_collector_is_ignored() -> None:
    closed = list[str]()

    class Knot:
        def __init__(self) -> None:
            self.words = self.speak()

        async def speak(self) -> AsyncGenerator[str, None]:
            try:
                yield "so far"
            finally:
                await asyncio.sleep(0)
                closed.append(self.__class__.__name__)

    async def letting_go() -> None:
        await anext(Knot().words)
        gc.collect()

    asyncio.run(fail_on_leaked_tasks(letting_go()))
    assert closed == ["Knot"]
