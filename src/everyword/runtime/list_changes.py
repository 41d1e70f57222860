"""Tells watchers of lists which conversations changed: at once for this process, within a second for other nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..errors import AgentStopped, LogError
from ..ids import AgentId, Millis, root_id
from ..log.base import Batch, LogStore
from ..log.lists import ListChange, ListedConversation
from ..log.receipt import Receipt
from ..rows import CONVERSATION, SETTLED, WAITING, KeptRow, listed_owner
from .clock import Clock
from .commit_loop import OnAppend

__all__ = ["ListChanges", "ListWatcher"]

log = logging.getLogger("everyword.runtime")

SHOWN: Final = frozenset({CONVERSATION, SETTLED, WAITING})

POLL_EVERY: Final = 1000
"""Milliseconds between two looks at what other nodes changed."""

OVERLAP: Final = 15_000
"""Milliseconds that each look goes back: a commit may become visible later than one that began after it."""

MOST_PENDING: Final = 10_000
"""Changes that are kept for a slow watcher. With more it is only told that everything may have changed."""

MOST_READS: Final = 1000
"""Conversations, and owners of deleted ones, that are kept for watchers which have not looked at their last change."""

ReadsConversation = Callable[[AgentId], Coroutine[Any, Any, ListedConversation | None]]


class ListWatcher:
    """What one watcher has not looked at yet: the root agents whose rows changed."""

    def __init__(self) -> None:
        self._pending: dict[AgentId, None] = {}
        self._changed = asyncio.Event()
        self._has_missed = False
        self._is_closed = False

    def close(self) -> None:
        """Tell the watcher that there will be no more changes."""
        self._is_closed = True
        self._changed.set()

    def note(self, agent: AgentId) -> None:
        """Add a root agent whose rows changed."""
        if len(self._pending) >= MOST_PENDING:
            self._pending.clear()
            self._has_missed = True
        self._pending[agent] = None
        self._changed.set()

    async def next(self) -> list[AgentId] | None:
        """Wait for changes; return the agents, or None if there were too many: everything may have changed.

        Raises:
            AgentStopped: the process shuts down.
        """
        await self._changed.wait()
        if self._is_closed:
            raise AgentStopped("unable to watch the list any longer; the server is stopping. Come back in a moment.")
        self._changed.clear()
        found, self._pending = list(self._pending), {}
        has_missed, self._has_missed = self._has_missed, False
        return None if has_missed else found


class ListChanges:
    """The changes of one process's store, for any number of watchers."""

    def __init__(self, store: LogStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._watchers: set[ListWatcher] = set()
        self._reads: dict[AgentId, asyncio.Task[ListedConversation | None]] = {}
        self._owners: dict[AgentId, str] = {}
        self._poll: asyncio.Task[None] | None = None
        self._is_closed = False

    def after(self, on_append: OnAppend | None) -> OnAppend:
        """Return a function that is told of each batch: it calls `on_append`, then notes the changes."""

        def appended(batch: Batch, receipt: Receipt) -> None:
            if on_append is not None:
                on_append(batch, receipt)
            if receipt.is_done and not self._watchers:
                return
            # A watcher that begins before the commit reads a list without it, so it has to be told.
            if any(isinstance(row, KeptRow) and row.kind in SHOWN for row in batch.rows):
                self._note_when_committed(root_id(batch.agent), receipt)

        return appended

    def _note_when_committed(self, agent: AgentId, receipt: Receipt) -> None:
        def committed(receipt: Receipt) -> None:
            if receipt.error is None:
                self.note(agent)

        receipt.then(committed)

    def note(self, agent: AgentId) -> None:
        """Tell every watcher that the rows of a root agent, or of an agent below it, changed."""
        self._reads.pop(agent, None)
        for watcher in self._watchers:
            watcher.note(agent)

    async def remember_owner(self, agent: AgentId) -> None:
        """Remember the owner of a conversation that is about to be deleted, if there are watchers."""
        if not self._watchers or self._store.lists is None:
            return
        try:
            found = await self._store.lists.find_conversation(agent)
        except LogError:
            return  # the deletion matters more
        if found is not None:
            self._remember_owner(agent, listed_owner(found.summary.owner))

    def _remember_owner(self, agent: AgentId, owner: str) -> None:
        if len(self._owners) >= MOST_READS:
            self._owners.clear()
        self._owners[agent] = owner

    def was_owned(self, agent: AgentId, owner: str) -> bool:
        """Return whether a deleted conversation was this principal's."""
        return self._owners.get(agent) == listed_owner(owner)

    async def read_once(self, agent: AgentId, read: ReadsConversation) -> ListedConversation | None:
        """Return the conversation of an agent that was noted: all watchers share one reading of each change.

        Raises:
            LogError: the store cannot be read.
        """
        reading = self._reads.get(agent)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            if len(self._reads) >= MOST_READS:
                self._reads.clear()
            reading = self._reads[agent] = asyncio.create_task(read(agent), name=f"conversation of {agent}")
            reading.add_done_callback(_forget_error)  # every watcher may be gone when it fails
        return await asyncio.shield(reading)  # it is not cancelled with the watcher that was the first to ask

    def close(self) -> None:
        """Tell every watcher that the process shuts down."""
        self._is_closed = True
        for watcher in self._watchers:
            watcher.close()

    @contextmanager
    def watching(self) -> Iterator[ListWatcher]:
        """Watch while the block runs. Changes that were committed before are not told."""
        watcher = ListWatcher()
        self._watchers.add(watcher)
        if self._is_closed:
            watcher.close()
        if self._poll is None and self._store.nodes is not None:
            self._poll = asyncio.create_task(self._look_at_other_nodes(), name="changes of lists by other nodes")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            if not self._watchers:
                self._reads.clear()
                self._owners.clear()
            if not self._watchers and self._poll is not None:
                self._poll.cancel()
                self._poll = None

    async def _look_at_other_nodes(self) -> None:
        lists = self._store.lists
        assert lists is not None, "a store that nodes share has lists"
        known = frozenset[ListChange]()
        since: Millis | None = None
        while True:
            try:
                now, found = await lists.changed_since(Millis((since or 2**62) - OVERLAP))
                if since is not None:
                    for each in found:
                        if each not in known:
                            if each.owner is not None:
                                self._remember_owner(each.agent, each.owner)
                            self.note(each.agent)
                    known = frozenset(found)
                since = now
            except LogError as exc:
                log.warning("unable to see what other nodes changed in lists; trying again: %s", exc)
            await self._clock.sleep_until(Millis(self._clock.now() + POLL_EVERY))


def _forget_error(reading: asyncio.Task[Any]) -> None:
    if not reading.cancelled():
        reading.exception()
