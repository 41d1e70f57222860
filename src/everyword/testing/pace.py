"""Answers held at a chosen item: what it takes to look at a conversation in the middle of a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

from ..ids import AgentId, TurnId
from ..runtime.api import Responder, TurnCall
from ..server import Everyword

__all__ = ["Pace", "Standstill", "comes", "paced"]


class Standstill:
    """Holds one answer once it has so many items, over all its attempts, until `end`; `reached` tells that it does."""

    def __init__(self, after: int) -> None:
        self.reached = asyncio.Event()
        self._after = after
        self._over = asyncio.Event()

    def end(self) -> None:
        self._over.set()

    async def stand(self, said: int) -> None:
        """Stand still if so many items are enough."""
        if said >= self._after and not self._over.is_set():
            self.reached.set()
            await self._over.wait()


@dataclass(slots=True)
class _Answer:
    """One answer, over all its attempts."""

    number: int
    standstill: Standstill | None
    said: int = 0
    """How many of its items were said and committed."""


class Pace:
    """Counts the places of a play at which it can be interrupted, and holds it from a chosen one on, until `release`.

    Such places are the beginning of every answer, the end of each of its items, and whatever a player calls one.
    `is_held` tells that it is held.
    """

    def __init__(self) -> None:
        self.is_held = asyncio.Event()
        self.held = ""
        """The first place at which it is held, in words."""
        self._places = 0
        self._hold: int | None = None
        self._released = asyncio.Event()
        self._answers: dict[tuple[AgentId, TurnId], _Answer] = {}
        self._next: Standstill | None = None

    def hold_at(self, place: int) -> None:
        """Hold the play at the place of this number, counted from 0."""
        self._hold = place

    def hold_next(self) -> None:
        """Hold the play at the next place that it comes to."""
        self._hold = self._places

    def release(self) -> None:
        self._released.set()

    def hold_answer(self, after: int) -> Standstill:
        """Return what holds the next answer that begins."""
        self._next = Standstill(after)
        return self._next

    async def place(self, name: str) -> None:
        """Stand still if this is the place."""
        place, self._places = self._places, self._places + 1
        if self._hold is not None and place >= self._hold and not self._released.is_set():
            self.held = self.held or name
            self.is_held.set()
            await self._released.wait()

    async def begin(self, agent: AgentId, turn: TurnId) -> None:
        """Begin an answer, or another attempt at it."""
        if (agent, turn) not in self._answers:
            self._answers[agent, turn] = _Answer(len(self._answers) + 1, self._next)
            self._next = None
        await self._stand(self._answers[agent, turn])

    async def say(self, agent: AgentId, turn: TurnId) -> None:
        """Count another item of an answer."""
        answer = self._answers[agent, turn]
        answer.said += 1
        await self._stand(answer)

    async def _stand(self, answer: _Answer) -> None:
        await self.place(f"after item {answer.said} of answer {answer.number}")
        if answer.standstill is not None:
            await answer.standstill.stand(answer.said)


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
        await pace.begin(call.agent, call.turn)
        async with aclosing(inner(call)) as items:
            async for item in items:
                yield item
                await call.message()  # answered in order, and so behind the commit
                await pace.say(call.agent, call.turn)

    return stream


async def comes(event: asyncio.Event, playing: asyncio.Task[None]) -> bool:
    """Wait for an event, or for the end of a task that may cause it; tell whether it came."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiting, playing], return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
