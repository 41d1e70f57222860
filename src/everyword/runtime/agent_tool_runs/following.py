"""Following what a run's sub-agent says: one turn of another agent's log, by cursor, from its first chunk on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ...events import Chunk, TurnAccepted, TurnEnded
from ...ids import AgentId, RequestId, Seq, TurnId
from ..subscription import Subscription, read_committed
from ..tail import Committed

if TYPE_CHECKING:
    from ..directory import Directory

__all__ = ["RunFollower"]


class RunFollower:
    """Reads the turn of one request id. Nothing is lost between what is stored and what is new: it is one log.

    `wake` is set when there may be more. `chunks` is the count of chunks, known exactly once `is_over`.
    """

    def __init__(self, directory: Directory, child: AgentId, request: RequestId, wake: asyncio.Event) -> None:
        self.chunks = 0
        self.is_over = False
        self._directory, self._child, self._request, self._wake = directory, child, request, wake
        self._cursor = Seq(0)
        self._turn: TurnId | None = None
        self._stack: AsyncExitStack | None = None
        self._subscription: Subscription | None = None

    async def poll(self) -> list[Committed]:
        """Return the next chunks that are committed, a page at most; empty when there is nothing new, or no more.

        Loads the sub-agent and keeps it loaded, so that it wakes the reader; call `aclose`.

        Raises:
            AgentStopped: the process stops.
            LogError: the sub-agent cannot be loaded right now.
        """
        while not self.is_over:
            subscription = await self._subscribed()
            page = await subscription.poll()
            self._cursor = subscription.cursor
            if not page:
                if not subscription.is_closed:
                    return []
                await self._let_go()  # unloaded, or lost to a failing store: read on where it is loaded next
                continue
            if chunks := self._taken(page):
                return chunks
        return []

    async def read_stored(self) -> list[Committed]:
        """Return the next page of chunks from the store, without loading the sub-agent; empty at the end."""
        while not self.is_over:
            page, self._cursor = await read_committed(self._directory.store, self._child, self._cursor)
            if not page:
                return []
            if chunks := self._taken(page):
                return chunks
        return []

    async def aclose(self) -> None:
        await self._let_go()

    def _taken(self, page: list[Committed]) -> list[Committed]:
        chunks: list[Committed] = []
        for committed in page:
            match committed.event:
                case TurnAccepted(request=request, turn=turn) if request == self._request:
                    self._turn = turn
                case Chunk(turn=turn, index=index) if turn == self._turn:
                    self.chunks = index + 1
                    chunks.append(committed)
                case TurnEnded(turn=turn) as ended if turn == self._turn:
                    self.chunks, self.is_over = max(self.chunks, ended.chunks), True
                    break
                case _:
                    pass
        return chunks

    async def _subscribed(self) -> Subscription:
        if self._subscription is not None:
            return self._subscription
        async with AsyncExitStack() as stack:
            loaded = await stack.enter_async_context(self._directory.attach(self._child))
            subscription = loaded.subscribe(self._cursor, self._wake)
            stack.callback(subscription.close)
            self._subscription, self._stack = subscription, stack.pop_all()
        return subscription

    async def _let_go(self) -> None:
        stack, self._stack, self._subscription = self._stack, None, None
        if stack is not None:
            await stack.aclose()
