"""Hold answers at a chosen item, so that a test can look at a conversation in the middle of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

from ..ids import AgentId, TurnId
from ..runtime.api import StreamFunction, TurnCall
from ..runtime.erasures import Erasures
from ..server import Everyword
from ..server.lifecycle import Lifecycle

__all__ = ["AnswerHold", "HoldPoints", "happens_before_end", "with_hold_points"]


class AnswerHold:
    """Holds one answer after its first `after` items, over all its attempts, until `end`. `reached` is set then."""

    def __init__(self, after: int) -> None:
        self.reached = asyncio.Event()
        self._after = after
        self._ended = asyncio.Event()

    def end(self) -> None:
        self._ended.set()

    async def wait(self, items: int) -> None:
        """Wait until `end` if the answer has enough items."""
        if items >= self._after and not self._ended.is_set():
            self.reached.set()
            await self._ended.wait()


@dataclass(slots=True)
class _Answer:
    """One answer, over all its attempts."""

    number: int
    hold: AnswerHold | None
    items: int = 0
    """How many of its items were yielded and committed."""


class HoldPoints:
    """Counts the points at which a run can be interrupted, and holds the run from a chosen one on, until `release`.

    A point is the beginning of an answer, the end of each of its items, and each call of `point`. `is_held` is set
    while the run is held.
    """

    def __init__(self) -> None:
        self.is_held = asyncio.Event()
        self.held = ""
        """The first point at which the run is held, in words."""
        self._points = 0
        self._hold_from: int | None = None
        self._released = asyncio.Event()
        self._answers: dict[tuple[AgentId, TurnId], _Answer] = {}
        self._next_hold: AnswerHold | None = None

    def hold_at(self, point: int) -> None:
        """Hold the run at the point with this number, counted from 0."""
        self._hold_from = point

    def hold_next(self) -> None:
        """Hold the run at its next point."""
        self._hold_from = self._points

    def release(self) -> None:
        self._released.set()

    def hold_answer(self, after: int) -> AnswerHold:
        """Hold the next answer that begins, after so many items."""
        self._next_hold = AnswerHold(after)
        return self._next_hold

    async def point(self, name: str) -> None:
        """Count a point, and wait until `release` if the run is held here."""
        number, self._points = self._points, self._points + 1
        if self._hold_from is not None and number >= self._hold_from and not self._released.is_set():
            self.held = self.held or name
            self.is_held.set()
            await self._released.wait()

    async def begin_answer(self, agent: AgentId, turn: TurnId) -> None:
        """Count the beginning of an answer, or of another attempt at it."""
        if (agent, turn) not in self._answers:
            self._answers[agent, turn] = _Answer(len(self._answers) + 1, self._next_hold)
            self._next_hold = None
        await self._answer_point(self._answers[agent, turn])

    async def end_item(self, agent: AgentId, turn: TurnId) -> None:
        """Count an item of an answer."""
        answer = self._answers[agent, turn]
        answer.items += 1
        await self._answer_point(answer)

    async def _answer_point(self, answer: _Answer) -> None:
        await self.point(f"after item {answer.items} of answer {answer.number}")
        if answer.hold is not None:
            await answer.hold.wait(answer.items)


def with_hold_points(app: Everyword, points: HoldPoints) -> Everyword:
    """Return a copy of the app whose answers stop at the points; each item is committed before the next is asked for.

    The copy has no rate limits, because a script sends more requests per minute than a person.
    """
    copied = copy(app)
    unlimited = {field.name: 10**6 for field in fields(app.limits) if field.name.endswith("_per_minute")}
    copied.limits = replace(app.limits, **unlimited)
    copied._lifecycle = Lifecycle(copied._open, copied._close)
    copied._erasing = Erasures(copied._running_directory, lambda: copied._calls)
    copied._wrap_stream = lambda stream: _held(app._wrap_stream(stream), points)
    return copied


def _held(inner: StreamFunction, points: HoldPoints) -> StreamFunction:
    async def stream(call: TurnCall) -> AsyncGenerator[Any, None]:
        await points.begin_answer(call.agent, call.turn)
        items: Any = inner(call)
        async with aclosing(items):
            async for item in items:
                yield item
                await call.message()  # queries run in order, so this one returns after the commit of the item
                await points.end_item(call.agent, call.turn)

    return stream


async def happens_before_end(event: asyncio.Event, playing: asyncio.Task[None]) -> bool:
    """Wait for an event, or for the end of the task that may set it; return whether the event is set."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiting, playing], return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
