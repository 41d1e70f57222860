"""What was committed, told to those who watch: outside the actor, in order, and within bounds."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from ..events import AttemptStarted, Event, TurnAccepted, TurnEnded, decode_event
from ..ids import AgentId, Seq, TurnId
from ..log.base import Batch, Entry
from ..log.receipt import Receipt, receipt_for
from .api import EventHook, Happened, Observer, TurnFacts

__all__ = ["EventDispatcher"]

log = logging.getLogger("everyword.observe")

ROOM = 10_000
"""Batches that may wait for those who watch; what comes when there is no room is not told to them."""

REMEMBERED = 10_000
"""Turns that are remembered between their acceptance and their end."""

_CHUNK = "chunk"
_FACTS = frozenset({"turn.accepted", "attempt.started", "turn.ended"})
"""What is remembered of a turn comes from these."""


class EventDispatcher:
    """Hears every commit, without delaying it, and tells observers soon; if there are hooks, in a task of its own."""

    def __init__(self, hooks: Sequence[EventHook], observers: Sequence[Observer], *, room: int = ROOM) -> None:
        self.missed = 0
        """Batches that there was no room for."""
        self._hooks, self._observers, self._room = hooks, observers, room
        self._wants_chunks = any(observer.wants_chunks for observer in observers)
        wanted = [observer.kinds for observer in observers]
        self._kinds = None if hooks or None in wanted else frozenset[str]().union(*filter(None, wanted))
        """What has to be told; None for everything."""
        self._waiting: deque[Batch] = deque()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_due = False
        self._turns: OrderedDict[tuple[AgentId, TurnId], TurnFacts] = OrderedDict()
        self._is_full = False

    def attach(self, store: Any) -> None:
        """Hear of everything that is appended to the store from now on."""
        append = getattr(store.append, "untapped", store.append)

        def append_and_tell(batch: Batch) -> Awaitable[None]:
            begun: Awaitable[None] = append(batch)
            if not self._wants_chunks and _is_chunks(batch.entries):
                return begun  # nobody wants to hear of it
            appending = receipt_for(begun)
            appending.then(partial(self._appended, batch))
            return appending

        append_and_tell.untapped = append  # type: ignore[attr-defined]
        store.append = append_and_tell
        if self._hooks:
            self._task = asyncio.create_task(self._run(), name="telling those who watch")

    def _appended(self, batch: Batch, appending: Receipt) -> None:
        if appending.error is None:
            self.hear(batch)

    def hear(self, batch: Batch) -> None:
        """Take in what was committed; called right behind the commit, and costs it next to nothing."""
        if len(self._waiting) >= self._room:
            self.missed += 1
            if not self._is_full:
                self._is_full = True
                log.warning("those who watch are too slow; events are not told to them until they catch up")
            return
        self._waiting.append(batch)
        if self._hooks:
            self._news.set()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._tell_all)

    async def aclose(self) -> None:
        """Tell what still waits, as far as that takes no time of its own, and stop."""
        for _ in range(2):
            await asyncio.sleep(0)  # what does not wait for anything is through by then
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                for happened in self._tell(self._waiting.popleft()):
                    await self._call_hooks(happened)
            self._is_full = False

    def _tell_all(self) -> None:
        self._is_due = self._is_full = False
        while self._waiting:
            for _ in self._tell(self._waiting.popleft()):
                pass  # there is no hook to be told

    def _tell(self, batch: Batch) -> Iterator[Happened]:
        """Tell the observers what happened, one by one; give each to whoever has others to tell."""
        chunks: dict[TurnId | None, int] = {}
        for place, entry in enumerate(batch.entries):
            if entry.kind == _CHUNK:
                if self._wants_chunks:
                    chunks[entry.turn] = chunks.get(entry.turn, 0) + 1
                continue
            is_wanted = self._kinds is None or entry.kind in self._kinds
            event = self._read(entry) if is_wanted or entry.kind in _FACTS else None
            if event is None:
                continue
            facts = self._note(batch, entry, event)
            if is_wanted:
                seq = Seq(batch.first + place)
                happened = Happened(batch.agent, seq, batch.at, event, entry.kind, entry.turn, facts)
                self._tell_observers(happened)
                yield happened
        for turn, count in chunks.items():
            self._tell_chunks(batch, turn, count)

    @staticmethod
    def _read(entry: Entry) -> Event | None:
        try:
            return entry.event if entry.event is not None else decode_event(entry.body)
        except msgspec.DecodeError:
            return None

    def _note(self, batch: Batch, entry: Entry, event: Event) -> TurnFacts | None:
        """Remember what the event says of its turn; return what is known of it."""
        key = (batch.agent, entry.turn) if entry.turn is not None else None
        facts = self._turns.get(key) if key is not None else None
        match event:
            case TurnAccepted() if key is not None:
                facts = self._turns[key] = TurnFacts(event.request, accepted_at=batch.at)
                if len(self._turns) > REMEMBERED:
                    self._turns.popitem(last=False)
            case AttemptStarted() if facts is not None:
                facts.attempt = event.attempt
                facts.begun_at = facts.begun_at or batch.at
            case TurnEnded() if facts is not None and key is not None:
                facts.outcome = event.outcome
                del self._turns[key]
        return facts

    def _tell_observers(self, happened: Happened) -> None:
        for observer in self._observers:
            if observer.kinds is not None and happened.kind not in observer.kinds:
                continue
            try:
                observer.happened(happened)
            except Exception:
                log.exception("%r failed at %s of %r", observer, happened.kind, happened.agent)

    async def _call_hooks(self, happened: Happened) -> None:
        for hook in self._hooks:
            try:
                told = hook(happened)
                if inspect.isawaitable(told):
                    await told
            except Exception:
                log.exception("`on_event` raised at %s of %r", happened.kind, happened.agent)

    def _tell_chunks(self, batch: Batch, turn: TurnId | None, count: int) -> None:
        facts = self._turns.get((batch.agent, turn)) if turn is not None else None
        for observer in self._observers:
            if not observer.wants_chunks:
                continue
            try:
                observer.streamed(batch.agent, facts, count)
            except Exception:
                log.exception("%r failed at chunks of %r", observer, batch.agent)
        if facts is not None and facts.first_chunk_at is None:
            facts.first_chunk_at = batch.at


def _is_chunks(entries: Sequence[Entry]) -> bool:
    """Tell whether there is nothing but chunks in a batch, as in nearly every one."""
    # What ends a turn ends its batch. A generator would cost more than what it looks at.
    for entry in reversed(entries):  # noqa: SIM110
        if entry.kind != _CHUNK:
            return False
    return True
