"""Unload an agent although clients use it and turns run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..log.base import LogStore

if TYPE_CHECKING:
    from .directory import LoadedAgent

__all__ = ["LET_GO", "unload"]

LET_GO: Final = 2.0
"""Seconds that interrupted code has to clean up, and the store to make the last commits."""


async def unload(loaded: LoadedAgent, store: LogStore) -> None:
    """Interrupt what runs in an agent, commit what it has been asked, and close its database.

    Turns that run go on when the agent is loaded again, as after a shutdown.
    """
    tasks: list[asyncio.Task[Any]] = list(loaded.reconciler.tasks)
    loaded.reconciler.interrupt()
    loaded.actor.stop()
    for task in tasks:
        task.cancel()
    actor = [loaded.task] if loaded.task is not None else []
    if tasks or actor:
        await asyncio.wait([*tasks, *actor], timeout=LET_GO)
    for each in actor:
        if not each.done():  # the store hangs
            each.cancel()
            await asyncio.wait([each], timeout=LET_GO)
    if store.databases is not None:
        with suppress(Exception):  # an error of a statement is the caller's of the statement
            await asyncio.wrap_future(store.databases.release(loaded.actor.agent))
