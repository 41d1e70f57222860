"""Checks the agents' models when the app starts, so that a missing key is reported before the first question."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ..agents import Agent, Think
from ..agents.setup_problems import named_models, setup_problems

__all__ = ["SetupCheck"]

log = logging.getLogger("everyword.server")


class SetupCheck:
    """Checks in a thread, concurrently with the start, because finding a model imports its provider's package."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self, classes: Iterable[type[Agent]]) -> None:
        """Start to check these classes; does nothing if none of them names its model."""
        named = list(named_models(classes))
        self._task = asyncio.create_task(_look(named), name="check of the models") if named else None

    async def finished(self) -> None:
        """Wait until the check has finished or was stopped."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def end(self) -> None:
        """Stop the check."""
        if self._task is not None:
            self._task.cancel()
            await self.finished()


async def _look(classes: list[type[Think]]) -> None:
    try:
        for cls, why in await asyncio.to_thread(setup_problems, classes):
            log.error("%s cannot answer: %s", cls.__name__, why)
    except Exception:
        log.exception("unable to check whether the models can be used")
