"""States that were set and are not committed yet: the agent's own code sees them at once, clients after the commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["PendingStates"]


class _Waiting(msgspec.Struct, eq=False):
    """One state that was set and is not committed yet."""

    value: bytes
    writer: object
    reply: asyncio.Future[Any]
    after: list[Callable[[], None]] = []
    """What is done once it is committed."""

    @property
    def has_failed(self) -> bool:
        """True if it will never be committed; known before callers that wait for it are woken."""
        reply = self.reply
        return reply.done() and (reply.cancelled() or reply.exception() is not None)


class PendingStates:
    """The states of one loaded agent that are on their way to its log, oldest first.

    All of them go through the agent's mailbox in the order in which they were set, so the newest is
    what the log will say. A commit that fails drops the actor (R-27), so that what was set after it fails as well.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def add(self, value: bytes, writer: object, reply: asyncio.Future[Any]) -> None:
        """Note a state that was posted; `reply` is done when it is committed, or cannot be."""
        waiting = _Waiting(value, writer, reply)
        self._waiting.append(waiting)
        reply.add_done_callback(lambda _: self._done(waiting))

    def newest(self, writer: object = None) -> bytes | None:
        """Return the state that was set last, by `writer` if one is given; None when all are committed or failed."""
        for waiting in reversed(self._waiting):
            if (writer is None or waiting.writer is writer) and not waiting.has_failed:
                return waiting.value
        return None

    @property
    def are_waiting(self) -> bool:
        """Whether one that was set is not committed yet."""
        return bool(self._waiting)

    def then(self, work: Callable[[], None]) -> None:
        """Do something when all that were set so far are committed, in order; never, if one of them cannot be."""
        if self._waiting:
            self._waiting[-1].after.append(work)
        else:
            work()

    async def committed(self) -> None:
        """Wait until all that were set so far are committed; raises why one of them is not."""
        replies = [waiting.reply for waiting in self._waiting]
        if replies:
            await asyncio.wait(replies)  # one that is cancelled here must not cancel them
        for reply in replies:
            reply.result()

    def _done(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        if not waiting.has_failed:
            for work in waiting.after:
                work()
