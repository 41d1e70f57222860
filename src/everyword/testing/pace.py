"""Answers held at a chosen item: what it takes to look at a conversation in the middle of a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from copy import copy
from dataclasses import fields, replace
from typing import Any

from ..ids import AgentId
from ..runtime.api import Responder, TurnCall
from ..server import Everyword

__all__ = ["Pace", "paced"]


class Pace:
    """Counts the items of all answers, and holds them once at a chosen one; `is_held` tells that it does."""

    def __init__(self) -> None:
        self.is_held = asyncio.Event()
        self.items = 0
        """How many items were said and committed."""
        self.said = 0
        """How many of them in the turn that runs."""
        self.changed = asyncio.Event()
        self._hold: int | None = None
        self._released = asyncio.Event()

    def hold_after(self, items: int) -> None:
        self._hold = items

    def release(self) -> None:
        self._released.set()

    def begin(self) -> None:
        self.said = 0

    async def pause(self) -> None:
        """Stand still if this is the place."""
        if self.items == self._hold and not self._released.is_set():
            self.is_held.set()
            await self._released.wait()

    def count(self) -> None:
        self.items += 1
        self.said += 1
        self.changed.set()
        self.changed = asyncio.Event()


def paced(app: Everyword, pace: Pace) -> Everyword:
    """Return the app with answers that go item by item: each is committed before the next is asked for."""
    made = copy(app)
    # A script asks more often than a person.
    hasty = {field.name: 10**6 for field in fields(app.limits) if field.name.endswith("_per_minute")}
    made.limits = replace(app.limits, **hasty)
    answer_for = app._responder.__func__  # type: ignore[attr-defined]

    class Paced(type(app)):  # type: ignore[misc]
        def _responder(self, agent: AgentId) -> Responder:
            responder: Any = answer_for(self, agent)
            responder.stream = _stream(responder.stream, pace)
            return responder  # type: ignore[no-any-return]

    made.__class__ = Paced
    return made


def _stream(inner: Any, pace: Pace) -> Any:
    async def stream(call: TurnCall) -> AsyncGenerator[Any, None]:
        if call.attempt == 1:
            pace.begin()
        await pace.pause()
        async with aclosing(inner(call)) as items:
            async for item in items:
                yield item
                await call.message()  # answered in order, and so behind the commit
                pace.count()
                await pace.pause()

    return stream
