"""Two lanes, one order (B5): events by cursor, and direct frames that are not in the log.

A direct frame (an rpc reply, a handshake answer, a broadcast) is stamped with the log's head when it is posted, and
leaves when the connection's cursor has reached that head: it never overtakes what had happened before it. The lane is
bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from ..errors import MailboxFull
from ..ids import Seq
from .subscription import Subscription
from .tail import Committed

__all__ = ["ConnectionOutbox"]


T = TypeVar("T")


class ConnectionOutbox(Generic[T]):
    """What one connection is to be sent, in order. One task reads it; any may post.

    `T` is what the direct lane carries besides frames: questions that are answered in order with the events.
    """

    def __init__(self, subscription: Subscription, *, limit: int = 1024, max_bytes: int = 4 * 1024 * 1024) -> None:
        self._subscription = subscription
        self._limit, self._max_bytes = limit, max_bytes
        self.direct: deque[tuple[Seq, bytes | T]] = deque()
        """What waits in the direct lane, and the head that it was stamped with; only `post` adds to it."""
        self._bytes = 0
        self._room = asyncio.Event()
        self._is_closed = False

    def post(self, item: bytes | T) -> None:
        """Add a direct frame, or a question.

        Raises:
            MailboxFull: the client reads too slowly; the caller closes the connection with 1013.
        """
        size = len(item) if isinstance(item, bytes) else 0
        is_too_much = bool(self._bytes) and self._bytes + size > self._max_bytes  # one frame may be of any size
        if len(self.direct) >= self._limit or is_too_much:
            raise MailboxFull("unable to send a frame; the client does not read. Close 1013 and let it come back.")
        self.direct.append((self._subscription.head, item))
        self._bytes += size
        self._subscription.wake.set()

    async def drain(self) -> None:
        """Wait until half of the direct lane is free, or the connection is gone; for callers that post many frames."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()

    @property
    def has_room(self) -> bool:
        """Whether `drain` would not wait."""
        is_half_empty = len(self.direct) <= self._limit // 2 and self._bytes <= self._max_bytes // 2
        return is_half_empty or self._is_closed

    def close(self) -> None:
        """Note that nothing is read from it any more."""
        self._is_closed = True
        self._room.set()

    async def next(self) -> bytes | T | list[Committed]:
        """Wait for, and return, the next of the direct lane or the next page of events.

        Raises:
            AgentStopped: nothing more will come.
        """
        while (item := await self.poll()) is None:
            await self.wait()
        return item

    async def poll(self) -> bytes | T | list[Committed] | None:
        """Return the next of the direct lane or the next page of events; None when there is nothing new."""
        while True:
            if self.direct and self.direct[0][0] <= self._subscription.cursor:
                _, item = self.direct.popleft()
                self._bytes -= len(item) if isinstance(item, bytes) else 0
                self._room.set()
                return item
            page = await self._subscription.poll(self.direct[0][0] if self.direct else None)
            if page:
                return page
            if not self.direct:
                return None

    async def wait(self) -> None:
        """Wait until there is something new since the last `poll`.

        Raises:
            AgentStopped: nothing more will come.
        """
        self._subscription.raise_if_stopped()
        await self._subscription.wait()
