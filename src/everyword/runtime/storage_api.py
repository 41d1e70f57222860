"""What an agent's own code may ask of its storage: SQL of its own, and streams that it manages."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from ..events import Outcome
from ..ids import Attempt, JobId, MessageId, Millis, RequestId, TurnId
from ..log.base import SqlResult

__all__ = ["ManagedRecord", "ManagedStreamPort", "SqlResult", "StoragePort"]


@dataclass(frozen=True, slots=True)
class ManagedRecord:
    """A managed stream as it stands. `outcome` is None while it streams, `total` is known once it does not."""

    turn: TurnId
    stream: RequestId
    message_id: MessageId
    attempt: Attempt
    created_at: Millis
    completed_at: Millis | None = None
    outcome: Outcome | None = None
    error: str | None = None
    total: int | None = None


class ManagedStreamPort(Protocol):
    """The streams of a ResumableStreamManager and the messages they belong to, through the agent's own mailbox."""

    async def send(self, message: dict[str, Any], stream: RequestId, answer: MessageId, job: JobId) -> None:
        """Store a message, open the stream of its answer and queue the job that fills it: all of it, or nothing."""
        ...

    async def begin(self, turn: TurnId) -> Attempt | None:
        """Begin the next attempt at a stream; None when it was tried too often, and has ended in error."""
        ...

    async def write(self, turn: TurnId, attempt: Attempt, bodies: Sequence[bytes]) -> None:
        """Commit pieces of a stream.

        Raises:
            Rejected: the stream has ended, or another attempt runs.
        """
        ...

    async def end(
        self,
        turn: TurnId,
        attempt: Attempt,
        outcome: Outcome,
        *,
        total: int,
        bodies: Sequence[bytes] = (),
        message: dict[str, Any] | None = None,
        error: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Commit the last pieces, the whole message and how the stream ended, at once.

        Raises:
            Rejected: the stream has ended, or another attempt runs.
        """
        ...

    async def find(self, stream: RequestId) -> ManagedRecord | None:
        """Return a stream of the conversation as it stands; None for one that is unknown or was cleared."""
        ...

    async def open(self) -> list[ManagedRecord]:
        """Return the streams that have not ended, oldest first."""
        ...

    async def pieces(self, turn: TurnId) -> list[tuple[Millis, bytes]]:
        """Return what is stored of a stream, in order, with the times."""
        ...

    async def messages(self) -> list[bytes]:
        """Return the messages as they are stored, oldest first."""
        ...

    async def clear(self) -> None:
        """Start anew: streams that are open end, jobs that fill them are cancelled, everything stored of them goes."""
        ...

    async def erase(self, until: Millis) -> int:
        """Delete the chunks of streams that ended at or before a time; return how many streams there were."""
        ...


class StoragePort(Protocol):
    """What an agent stores besides its conversation."""

    def sql(self, query: str, params: Sequence[Any]) -> Future[SqlResult]:
        """Queue a statement on the agent's own database.

        Raises:
            UsageError: this store keeps no databases.
        """
        ...

    @property
    def streams(self) -> ManagedStreamPort: ...
