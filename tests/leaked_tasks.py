"""Fail tests that leave tasks running."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["fail_on_leaked_tasks"]


async def fail_on_leaked_tasks(test: Coroutine[Any, Any, None], *, except_for: str = "\0") -> None:
    """Run a test; raise AssertionError for tasks that it leaves running, unless their coroutine names `except_for`."""
    others = asyncio.all_tasks()
    await test
    await asyncio.sleep(0)  # run the callbacks of tasks that have just ended
    left = asyncio.all_tasks() - others
    if closing := set(filter(_is_closing_a_generator, left)):
        # Not the test's: the loop closes a generator that was garbage-collected.
        await asyncio.wait(closing)
    leaked = [task for task in left - closing if except_for not in repr(task.get_coro())]
    assert not leaked, f"tasks that the test left running: {leaked}"


def _is_closing_a_generator(task: asyncio.Task[Any]) -> bool:
    """Return whether the loop itself started the task, as it does for every unfinished generator that is freed."""
    return type(task.get_coro()).__name__ == "async_generator_athrow"
