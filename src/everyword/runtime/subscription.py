"""Reading a log by cursor: from memory where it is recent, else from the store, in pages and off the loop."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

import msgspec

from ..errors import AgentStopped
from ..events import decode_event
from ..ids import AgentId, Seq
from ..log.base import LogStore
from .tail import Committed, Sink, Tail

__all__ = ["PAGE", "PAGE_BYTES", "Subscription", "read_committed"]

PAGE = 256
"""Events in one page at most."""
PAGE_BYTES = 1024 * 1024
"""Bytes of events in a page, from memory or from the store: what one slow client holds. A page has at least one."""
STORED_PAGE = 64
"""How many events are read from the store at once."""

log = logging.getLogger("everyword.runtime")


async def read_committed(store: LogStore, agent: AgentId, after: Seq, limit: int = PAGE) -> tuple[list[Committed], Seq]:
    """Return a page of up to `limit` events after the cursor, and the cursor behind them; skip unreadable rows."""
    stored = await store.read(agent, after, limit, size=PAGE_BYTES)
    committed: list[Committed] = []
    for row in stored:
        try:
            committed.append(Committed(row.seq, row.at, decode_event(row.body), len(row.body)))
        except msgspec.DecodeError as exc:
            log.error("unable to read event %d of %r; it is skipped: %s", row.seq, agent, exc)
    return committed, stored[-1].seq if stored else after


class Subscription:
    """One reader's place in one agent's log. An async context manager; `cursor` is the last seq it was handed."""

    def __init__(
        self,
        agent: AgentId,
        tail: Tail,
        store: LogStore,
        cursor: Seq | None = None,
        wake: asyncio.Event | None = None,
    ) -> None:
        self._agent, self._tail, self._store = agent, tail, store
        self.cursor = tail.head if cursor is None else cursor
        self.wake = tail.join(wake)

    @property
    def head(self) -> Seq:
        """The last committed seq: what a direct frame posted now is stamped with (B5)."""
        return self._tail.head

    @property
    def is_closed(self) -> bool:
        """Whether the agent is not loaded any more."""
        return self._tail.closed

    async def next(self, upto: Seq | None = None) -> list[Committed]:
        """Wait for events after the cursor and return a page of them, none beyond `upto`; moves the cursor.

        Raises:
            AgentStopped: the agent is not loaded any more and everything committed was handed out.
        """
        while not (page := await self.poll(upto)):
            self.raise_if_stopped()
            await self.wait()
        return page

    def raise_if_stopped(self) -> None:
        """Raise `AgentStopped` when the agent is not loaded any more."""
        if self._tail.why is not None:
            raise self._tail.why.with_traceback(None)
        if self._tail.closed:
            raise AgentStopped(f"unable to read {self._agent!r} any further; it is not loaded any more")

    async def poll(self, upto: Seq | None = None) -> list[Committed]:
        """Return a page of what is committed after the cursor, empty when there is nothing new; moves the cursor."""
        limit = PAGE if upto is None else min(PAGE, upto - self.cursor)
        if limit <= 0:
            return []
        while self.cursor < self._tail.head:
            page = self._tail.after(self.cursor, limit, PAGE_BYTES)
            if page is None:
                page, cursor = await read_committed(self._store, self._agent, self.cursor, min(limit, STORED_PAGE))
                # Nothing stored up to the head: what is missing there was pruned.
                self.cursor = cursor if cursor > self.cursor else self._tail.head
            else:
                self.cursor = page[-1].seq
            if page:
                return page
        return []

    def set_sink(self, sink: Sink | None) -> None:
        """Deliver events to `sink` while the reader waits, as `Tail.set_sink` does."""
        self._tail.set_sink(self.wake, sink)

    async def wait(self) -> None:
        """Wait until something new was committed or posted since the last call."""
        await self.wake.wait()
        if not self._tail.closed:
            self.wake.clear()

    def skip_to(self, cursor: Seq) -> None:
        """Move on without being handed what lies between; never moves back."""
        self.cursor = max(self.cursor, cursor)

    def close(self) -> None:
        self._tail.leave(self.wake)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
