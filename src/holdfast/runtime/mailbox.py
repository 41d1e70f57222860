"""Commands on their way to an actor, in order of arrival, bounded (R-26).

Three ways in, by who would suffer: client commands are refused when it is full, a runner waits for room (and so does
its provider's socket), cancel and clear always fit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.commands import Command
from ..core.state import State
from ..errors import AgentStopped, MailboxFull

__all__ = ["Inquiry", "Letter", "Mailbox"]


@dataclass(slots=True)
class Letter:
    """A command, and who waits for what it causes; a runner's chunks have nobody waiting."""

    command: Command
    reply: asyncio.Future[Any] | None = None


@dataclass(slots=True)
class Inquiry:
    """A question about the committed state, answered between two batches."""

    ask: Callable[[State], Any]
    reply: asyncio.Future[Any]


class Mailbox:
    """A queue with one reader, the actor."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._letters: deque[Letter | Inquiry] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._letters)

    def post(self, letter: Letter | Inquiry) -> None:
        """Add a client's letter.

        Raises:
            MailboxFull: there is no room; nothing was added.
            AgentStopped: the mailbox is closed.
        """
        if len(self._letters) >= self._capacity:
            raise MailboxFull(f"unable to take the command; {self._capacity} are waiting. Try again in a moment.")
        self.force(letter)

    async def offer(self, letter: Letter) -> None:
        """Add a runner's letter, waiting for room. Safe to cancel: it was then not added."""
        while len(self._letters) >= self._capacity and not self._closed:
            self._room.clear()
            await self._room.wait()
        self.force(letter)

    def force(self, letter: Letter | Inquiry) -> None:
        """Add a letter that must not be refused: cancel, clear, the actor's own."""
        if self._closed:
            raise AgentStopped("unable to take the command; the agent is not loaded any more. Reconnect and ask again.")
        self._letters.append(letter)
        self._arrived.set()

    async def take(self, limit: int) -> list[Letter] | Inquiry | None:
        """Wait for mail. Return the next inquiry, or up to `limit` letters before one; None once closed and empty."""
        while not self._letters:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        first = self._letters.popleft()
        if isinstance(first, Inquiry):
            self._make_room()
            return first
        batch = [first]
        while self._letters and len(batch) < limit and isinstance(letter := self._letters[0], Letter):
            batch.append(letter)
            self._letters.popleft()
        self._make_room()
        return batch

    def close(self) -> None:
        """Take nothing more; what is inside is still handed out. Idempotent."""
        self._closed = True
        self._arrived.set()
        self._room.set()

    def drain(self) -> list[Letter | Inquiry]:
        """Close, and return what nobody will answer any more."""
        self.close()
        left = list(self._letters)
        self._letters.clear()
        return left

    def _make_room(self) -> None:
        if len(self._letters) < self._capacity:
            self._room.set()
