"""What tests are held to by `tests/owning.py`."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator

import pytest

from tests.owning import owning_its_tasks


def test_a_task_that_a_test_leaves_behind_fails_the_test() -> None:
    async def leaving() -> None:
        asyncio.create_task(asyncio.Event().wait(), name="left behind")  # noqa: RUF006

    with pytest.raises(AssertionError, match=r"nobody owns.*left behind"):
        asyncio.run(owning_its_tasks(leaving()))


def test_tasks_that_others_started_are_not_the_tests() -> None:
    async def run() -> None:
        other = asyncio.create_task(asyncio.Event().wait())
        await owning_its_tasks(asyncio.sleep(0))
        assert not other.done()
        other.cancel()

    asyncio.run(run())


def test_what_the_collector_closes_at_a_tests_end_is_not_held_against_it() -> None:
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

    asyncio.run(owning_its_tasks(letting_go()))
    assert closed == ["Knot"]
