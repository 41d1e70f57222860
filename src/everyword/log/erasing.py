"""The part of a store that erases a principal: rewrite logs, find the logs that mention it, keep the progress.

An event never changes, except here and when an agent is deleted. Only the owner of an agent rewrites its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..ids import AgentId, Epoch, Millis, Seq, TurnId
from ..rows import Row

__all__ = ["ErasureNote", "Rewriting", "StoreErasure"]


class Rewriting(msgspec.Struct, frozen=True):
    """A log that is rewritten, in one transaction. States that a newer one replaced are deleted, too."""

    agent: AgentId
    epoch: Epoch
    """The epoch of the caller's lease."""
    events: Sequence[tuple[Seq, bytes]]
    """The new bodies of events, by seq, but for chunks."""
    turns: Sequence[TurnId]
    """Turns whose chunks are deleted. They have ended."""
    rows: Sequence[Row]
    """All rows of the agent, as the rewritten log implies them."""
    wake: Millis | None
    chunks: Sequence[tuple[Seq, bytes]] = ()
    """The new bodies of chunks, by seq. A row of a store may have several."""


class ErasureNote(msgspec.Struct, frozen=True):
    """One note about an erasure: its progress, to be continued after a crash."""

    erasure: str
    key: str
    """Empty for the note about the erasure itself; otherwise what the note is about."""
    body: bytes


class StoreErasure(Protocol):
    """The part of a store that erases. Reads need no lease."""

    async def mentioning(self, text: str) -> list[AgentId]:
        """Return the agents that have an event, other than a chunk, with the text as a JSON string. Reads every log."""
        ...

    async def rewrite(self, rewriting: Rewriting) -> None:
        """Rewrite a log and replace its rows, wholly or not at all.

        Raises:
            Fenced: the epoch is not the agent's current one.
            LogUnavailable: nothing was written.
        """
        ...

    async def rename_destroyed(self, agent: AgentId, to: AgentId) -> None:
        """Rename a destroyed agent and those below it, of which only the names are left. Agents with a log stay."""
        ...

    async def scrub(self) -> str | None:
        """Overwrite what was deleted, as far as the store can; return what is left to the operator, or None."""
        ...

    async def put_notes(self, notes: Sequence[ErasureNote]) -> None:
        """Write notes, in one transaction. A note replaces the one with the same erasure and key."""
        ...

    async def notes(self) -> list[ErasureNote]:
        """Return all notes, by erasure and key."""
        ...
