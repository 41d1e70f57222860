"""Tests own the tasks that they start, and with them whatever they start them in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["owning_its_tasks"]


async def owning_its_tasks(test: Coroutine[Any, Any, None], *, except_for: str = "\0") -> None:
    """Run a test; raises AssertionError for tasks that it leaves behind, unless their coroutine names `except_for`."""
    others = asyncio.all_tasks()
    await test
    await asyncio.sleep(0)  # callbacks of what has just ended
    left = asyncio.all_tasks() - others
    if closing := set(filter(_is_closing_a_generator, left)):
        # Not the test's: somebody let go of a generator, whose end comes when the collector does.
        await asyncio.wait(closing)
    owned_by_nobody = [task for task in left - closing if except_for not in repr(task.get_coro())]
    assert not owned_by_nobody, f"tasks that nobody owns: {owned_by_nobody}"


def _is_closing_a_generator(task: asyncio.Task[Any]) -> bool:
    """Tell whether the loop itself started this, as it does for every generator that is freed in the middle."""
    return type(task.get_coro()).__name__ == "async_generator_athrow"
