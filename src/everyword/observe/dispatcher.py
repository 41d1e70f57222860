"""Deliver committed events to observers and event hooks: outside the actor, in order, with a bounded queue."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from ..events import AttemptStarted, Event, TurnAccepted, TurnEnded, decode_event
from ..ids import AgentId, Seq, TurnId
from ..log.base import Batch, Entry
from ..log.receipt import Receipt
from .api import EventHook, Happened, Observer, TurnFacts

__all__ = ["EventDispatcher"]

log = logging.getLogger("everyword.observe")

MAX_QUEUED_BATCHES = 10_000
"""Batches that may wait for delivery. When the queue is full, new batches are dropped."""

MAX_TRACKED_TURNS = 10_000
"""Turns whose facts are kept between their acceptance and their end. The oldest are dropped first."""

_CHUNK = "chunk"
_FACTS = frozenset({"turn.accepted", "attempt.started", "turn.ended"})
"""Events from which the facts of a turn are taken."""


class EventDispatcher:
    """Takes every committed batch without delaying the commit, and delivers its events soon after.

    Observers are called from the event loop. If there are event hooks, a task calls them, and the observers too.
    """

    def __init__(
        self, hooks: Sequence[EventHook], observers: Sequence[Observer], *, room: int = MAX_QUEUED_BATCHES
    ) -> None:
        self.missed = 0
        """Number of batches that were dropped because the queue was full."""
        self._hooks, self._observers, self._room = hooks, observers, room
        self._wants_chunks = any(observer.wants_chunks for observer in observers)
        wanted = [observer.kinds for observer in observers]
        self._kinds = None if hooks or None in wanted else frozenset[str]().union(*filter(None, wanted))
        """Names of the events to deliver; None for all."""
        self._queued: deque[Batch] = deque()
        self._has_queued = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_due = False
        self._turns: OrderedDict[tuple[AgentId, TurnId], TurnFacts] = OrderedDict()
        self._is_full = False

    def start(self) -> None:
        """Start the task that calls the event hooks, if there are any."""
        if self._hooks:
            self._task = asyncio.create_task(self._run(), name="event hooks")

    def watch(self, batch: Batch, receipt: Receipt) -> None:
        """Deliver the events of a batch once its receipt says that it is committed."""
        if self._wants_chunks or not _is_chunks(batch.entries):
            receipt.then(partial(self._settled, batch))

    def _settled(self, batch: Batch, receipt: Receipt) -> None:
        if receipt.error is None:
            self.hear(batch)

    def hear(self, batch: Batch) -> None:
        """Queue a committed batch for delivery. Called right after the commit, so it must be fast."""
        if len(self._queued) >= self._room:
            self.missed += 1
            if not self._is_full:
                self._is_full = True
                log.warning("observers are too slow; dropping events until they catch up")
            return
        self._queued.append(batch)
        if self._hooks:
            self._has_queued.set()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._deliver_all)

    async def aclose(self) -> None:
        """Deliver queued events as far as that needs no waiting, and stop."""
        for _ in range(2):
            await asyncio.sleep(0)  # enough iterations for hooks that do not wait
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _run(self) -> None:
        while True:
            await self._has_queued.wait()
            self._has_queued.clear()
            while self._queued:
                for happened in self._deliver(self._queued.popleft()):
                    await self._call_hooks(happened)
            self._is_full = False

    def _deliver_all(self) -> None:
        self._is_due = self._is_full = False
        while self._queued:
            for _ in self._deliver(self._queued.popleft()):
                pass  # there are no hooks

    def _deliver(self, batch: Batch) -> Iterator[Happened]:
        """Call the observers for each event of the batch, and yield the event for the hooks."""
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
            facts = self._update_facts(batch, entry, event)
            if is_wanted:
                seq = Seq(batch.first + place)
                happened = Happened(batch.agent, seq, batch.at, event, entry.kind, entry.turn, facts)
                self._call_observers(happened)
                yield happened
        for turn, count in chunks.items():
            self._report_chunks(batch, turn, count)

    @staticmethod
    def _read(entry: Entry) -> Event | None:
        try:
            return entry.event if entry.event is not None else decode_event(entry.body)
        except msgspec.DecodeError:
            return None

    def _update_facts(self, batch: Batch, entry: Entry, event: Event) -> TurnFacts | None:
        """Update the facts of the event's turn and return them; None if nothing is known of it."""
        key = (batch.agent, entry.turn) if entry.turn is not None else None
        facts = self._turns.get(key) if key is not None else None
        match event:
            case TurnAccepted() if key is not None:
                facts = self._turns[key] = TurnFacts(event.request, accepted_at=batch.at)
                if len(self._turns) > MAX_TRACKED_TURNS:
                    self._turns.popitem(last=False)
            case AttemptStarted() if facts is not None:
                facts.attempt = event.attempt
                facts.begun_at = facts.begun_at or batch.at
            case TurnEnded() if facts is not None and key is not None:
                facts.outcome = event.outcome
                del self._turns[key]
        return facts

    def _call_observers(self, happened: Happened) -> None:
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
                result = hook(happened)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                log.exception("`on_event` raised at %s of %r", happened.kind, happened.agent)

    def _report_chunks(self, batch: Batch, turn: TurnId | None, count: int) -> None:
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
    """Return True if a batch has only chunks, as nearly every batch has."""
    # Backwards: an event that ends a turn comes last in its batch. `all()` with a generator costs more than the loop.
    for entry in reversed(entries):  # noqa: SIM110
        if entry.kind != _CHUNK:
            return False
    return True
