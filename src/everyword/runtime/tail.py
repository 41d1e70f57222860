"""The committed end of a log: recent events in memory plus a wake-up. A cache, never a source of truth.

Only the actor publishes, and only after the commit: that order is what "committed before visible" means (I-3).
Readers pull by cursor, so that a slow client is an old cursor and not a growing queue (I-11).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec

from ..errors import AgentStopped
from ..events import Event
from ..ids import Millis, Seq

__all__ = ["Committed", "Sink", "Tail"]


class Committed(msgspec.Struct, eq=False, gc=False):  # a Struct: there is one per token
    """One committed event. `live` and `frames` are where the wire layer keeps what it encoded, for all watchers."""

    seq: Seq
    at: Millis
    event: Event
    size: int = 0
    """Bytes that it takes in the log, and about as many in memory."""
    live: bytes | None = None
    frames: dict[str, bytes] = {}


Sink = Callable[[Sequence[Committed]], bool]
"""Takes committed events for a reader that waits, in the commit callback; False if the reader has to read them."""


class Tail:
    """The newest events of one agent, kept while there are readers, up to a number and a size."""

    def __init__(self, head: Seq, *, count: int = 4096, size: int = 4 * 1024 * 1024) -> None:
        self.head = head
        self._count, self._size = count, size
        self._bytes = 0
        self._recent: deque[Committed] = deque()
        self._readers: dict[asyncio.Event, Sink | None] = {}
        self.closed = False
        self.why: AgentStopped | None = None
        """Why it was closed, if there is more to say than that the agent is not loaded any more."""

    @property
    def readers(self) -> int:
        return len(self._readers)

    def publish(self, committed: Sequence[Committed]) -> None:
        """Make a committed batch visible: give it to the sinks of idle readers, and wake the other readers once each.

        It is not kept if every reader has it: a later reader reads the log, and with many streams keeping it would only
        cost memory.
        """
        self.head = committed[-1].seq
        has_been_read = False
        try:
            has_been_read = self._hand_out(committed)
        finally:  # also on Ctrl-C in the middle: what is kept always ends at the head
            if not has_been_read:
                self._keep(committed)
            elif self._recent:
                self._forget()

    def _hand_out(self, committed: Sequence[Committed]) -> bool:
        """Give the batch to all readers; False if one of them has still to read it."""
        has_been_read = True
        for reader, sink in self._readers.items():
            if sink is None or not sink(committed):
                self._readers[reader] = None  # it is woken: it has no sink until it waits again
                reader.set()
                has_been_read = False
        return has_been_read

    def _keep(self, committed: Sequence[Committed]) -> None:
        self._recent.extend(committed)
        for each in committed:
            self._bytes += each.size
        while len(self._recent) > self._count or (self._bytes > self._size and len(self._recent) > 1):
            self._bytes -= self._recent.popleft().size

    def _forget(self) -> None:
        self._recent.clear()
        self._bytes = 0

    def after(self, cursor: Seq, limit: int, size: int) -> list[Committed] | None:
        """Return up to `limit` events after `cursor`, of about `size` bytes and at least one.

        None means that they are not in memory and the log must be read.
        """
        if cursor >= self.head:
            return []
        recent, wanted = self._recent, self.head - cursor
        skip = len(recent) - wanted  # seqs have no gaps, and the newest is the head
        if skip < 0:
            return None
        if wanted <= skip:  # a deque is walked from an end: from the nearer one
            newest = list(islice(reversed(recent), wanted))
            newest.reverse()
            found: Iterable[Committed] = newest[:limit]
        else:
            found = islice(recent, skip, skip + limit)
        page: list[Committed] = []
        for each in found:
            if page and size < each.size:
                break
            size -= each.size
            page.append(each)
        return page

    def join(self, reader: asyncio.Event | None = None) -> asyncio.Event:
        """Register a reader; the event is set whenever there is something new, or the tail is closed.

        A reader of several tails passes its own event, and waits for all of them at once.
        """
        reader = reader if reader is not None else asyncio.Event()
        if self.closed:
            reader.set()
        self._readers[reader] = None
        return reader

    def set_sink(self, reader: asyncio.Event, sink: Sink | None) -> None:
        """Deliver events to `sink` while a reader waits that has read everything; None when it reads again.

        Waking a task and putting it to sleep again costs several times what a token does.
        """
        if reader in self._readers:
            self._readers[reader] = sink

    def leave(self, reader: asyncio.Event) -> None:
        self._readers.pop(reader, None)
        if not self._readers:
            self._forget()

    def close(self, why: AgentStopped | None = None) -> None:
        """Wake all readers a last time: the agent is not loaded any more."""
        self.closed, self.why = True, why
        for reader in self._readers:
            reader.set()
