"""Commands on their way to an actor, in order of arrival, bounded (R-26).

Three ways in: client commands are refused when it is full, a runner waits for room (and so does
its provider's socket), cancel and clear always fit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from ..core.commands import Command, EmitChunks, Emitted
from ..core.state import State
from ..errors import AgentStopped, MailboxFull
from ..ids import Attempt, TurnId

__all__ = ["Envelope", "Mailbox", "Query"]

CHUNKS = 2
"""Chunk capacity of one attempt, as a multiple of the command capacity. At 1, half-filled pages at the end of each
commit were 10 % of the bytes that a stream at full speed wrote."""


class Envelope(msgspec.Struct, eq=False):
    """A command, and the future that gets the events it causes; None for a runner's chunks."""

    command: Command
    reply: asyncio.Future[Any] | None = None


class Query(msgspec.Struct, eq=False):
    """A question about the committed state, answered between two batches."""

    ask: Callable[[State], Any]
    reply: asyncio.Future[Any]


class Mailbox:
    """A queue with one reader, the actor."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._most_chunks = CHUNKS * capacity
        self._envelopes: deque[Envelope | Query] = deque()
        self.on_mail: Callable[[], None] = lambda: None
        """Called when there is something for the reader, or never will be again."""
        self._room: asyncio.Event | None = None
        """Set when there may be room again."""
        self._closed = False
        self._why: AgentStopped | None = None
        """The error for commands that come too late, if it is another one than "closed"."""

    def __len__(self) -> int:
        return len(self._envelopes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, and something may still come."""
        return not self._envelopes and not self._closed

    @property
    def is_over(self) -> bool:
        """Whether nothing waits, and nothing will come any more."""
        return self._closed and not self._envelopes

    def post(self, envelope: Envelope | Query) -> None:
        """Add a client's envelope.

        Raises:
            MailboxFull: there is no room; nothing was added.
            AgentStopped: the mailbox is closed.
        """
        if len(self._envelopes) >= self._capacity:
            raise MailboxFull(f"unable to take the command; {self._capacity} are waiting. Try again in a moment.")
        self.force(envelope)

    def offer(self, turn: TurnId, attempt: Attempt, chunks: list[Emitted]) -> bool:
        """Add a runner's chunks, to those of the same attempt if they are last in the queue; False if there is no room.

        Taken, the list belongs to the mailbox: the caller changes nothing of it.
        """
        envelopes = self._envelopes
        if envelopes and not self._closed:
            last = envelopes[-1]
            waiting = last.command if type(last) is Envelope and last.reply is None else None
            if type(waiting) is EmitChunks and waiting.turn == turn and waiting.attempt == attempt:
                if len(waiting.chunks) >= self._most_chunks:
                    return False
                waiting.chunks.extend(chunks)
                return True
            if len(envelopes) >= self._capacity:
                return False
        if self._closed:
            self._refuse()
        envelopes.append(Envelope(EmitChunks(turn, attempt, chunks)))
        self.on_mail()
        return True

    async def room(self) -> None:
        """Wait until some mail was taken since it was full, or the mailbox is closed."""
        if not self._closed:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def force(self, envelope: Envelope | Query) -> None:
        """Add a envelope that must not be refused: cancel, clear, the actor's own."""
        if self._closed:
            self._refuse()
        self._envelopes.append(envelope)
        self.on_mail()

    def _refuse(self) -> NoReturn:
        if self._why is not None:
            raise self._why.with_traceback(None)
        raise AgentStopped("unable to take the command; the agent is not loaded any more. Reconnect and ask again.")

    def take(self, limit: int) -> list[Envelope] | Query | None:
        """Return the next query, or up to `limit` envelopes before one; None when nothing waits."""
        if not self._envelopes:
            return None
        first = self._envelopes.popleft()
        if isinstance(first, Query):
            self._make_room()
            return first
        batch = [first]
        while self._envelopes and len(batch) < limit and isinstance(envelope := self._envelopes[0], Envelope):
            batch.append(envelope)
            self._envelopes.popleft()
        if self._room is not None:
            self._make_room()
        return batch

    def close(self) -> None:
        """Take nothing more; what is inside is still handed out. Idempotent."""
        self._closed = True
        self.on_mail()
        self._make_room()

    def drain(self, why: AgentStopped | None = None) -> list[Envelope | Query]:
        """Close, and return what will not be answered any more. Commands that come later raise `why`."""
        self._why = self._why if why is None else why
        self.close()
        left = list(self._envelopes)
        self._envelopes.clear()
        return left

    def _make_room(self) -> None:
        if self._room is not None and (self._closed or len(self._envelopes) < self._capacity):
            self._room.set()
            self._room = None
