"""The interface of a store. Nothing here knows SQLite, and nothing above `log/` knows a particular store.

A log has the events of one agent, numbered by `Seq` from 1. A store keeps many logs, their projections (`rows`), the
leases and the wake times. It commits a batch as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ..events import Event
from ..ids import AgentId, Epoch, Millis, RequestId, Seq, TurnId
from ..rows import AgentRow, KeptRow, MessageRow, Row, TurnRow
from .erasing import StoreErasure
from .lists import AgentLists
from .nodes import NodeMembership
from .receipt import Receipt, receipt_for

__all__ = [
    "PRUNED",
    "REPLAYED",
    "UNCHANGED",
    "Activation",
    "AgentDatabases",
    "Batch",
    "Entry",
    "LogAdmin",
    "LogStore",
    "OneBatchAtATime",
    "Pruned",
    "SqlResult",
    "StoreFiles",
    "Stored",
    "Unchanged",
]


class Unchanged(msgspec.Struct, frozen=True):
    """Marks a wake time that a batch leaves as it is."""


UNCHANGED: Final = Unchanged()

REPLAYED: Final = (
    "attempt.started",
    "attempt.delayed",
    "attempt.interrupted",
    "chunk",
    "call.started",
    "call.answered",
)
"""Kinds of events from which an open turn is rebuilt when its agent is loaded."""


PRUNED: Final = ("chunk", "state.set")
"""Kinds of events that retention deletes some day; all others stay as long as their agent."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event to append: its kind, its turn, and its encoded bytes."""

    kind: str
    turn: TurnId | None
    body: bytes
    event: Event | None = None
    """The decoded event, so that observers need not decode the bytes again."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """What an agent's owner commits at once: entries at `first`, `first + 1`, … and the rows that they change.

    `at` is the time of the whole batch. `wake` is when the agent is to be woken, None for never.
    """

    agent: AgentId
    epoch: Epoch
    first: Seq
    at: Millis
    entries: Sequence[Entry]
    rows: Sequence[Row] = ()
    wake: Millis | Unchanged | None = UNCHANGED


class Stored(msgspec.Struct, frozen=True):
    """One stored event."""

    seq: Seq
    at: Millis
    kind: str
    turn: TurnId | None
    body: bytes


class Activation(msgspec.Struct, frozen=True):
    """A lease, and what its holder needs to continue: projections, and the events of open turns.

    `turns` are the open ones and the newest `recent` ended ones, by ordinal. `chunks` are the stored events
    of the open turns whose kind is in `REPLAYED`, by seq. `head` is the last seq of the log, 0 for a new agent.
    """

    epoch: Epoch
    head: Seq
    agent: AgentRow | None
    turns: Sequence[TurnRow]
    messages: Sequence[MessageRow]
    chunks: Sequence[Stored]
    kept: Sequence[KeptRow] = ()
    wakes: Sequence[tuple[AgentId, Millis]] = ()
    """From a store of several nodes: the wake times of the whole family, if the node has just become its owner."""
    last_at: Millis = Millis(0)
    """The time of the event at `head`; 0 if there is none. The clock of the owner before may have been ahead."""


class Pruned(msgspec.Struct, frozen=True):
    """The result of one step of retention; `more` is True if another step would find work."""

    chunks: int
    more: bool
    states: int = 0
    """The number of superseded states that were deleted."""


class LogStore(Protocol):
    """The durable half of an agent: one writer per agent, any number of readers.

    A store class that derives from this one has the defaults of the optional parts: `databases`, `files`, `lists`,
    `erasure`.
    """

    @property
    def databases(self) -> AgentDatabases | None:
        """The SQL databases of the agents (`self.sql`); None, the default, for a store that keeps none."""
        return None

    @property
    def files(self) -> StoreFiles | None:
        """The files of the store, to be checked from time to time; None, the default, for a store without files."""
        return None

    @property
    def lists(self) -> AgentLists | None:
        """Lists of conversations and approvals over all agents; None, the default, for a store that keeps none."""
        return None

    @property
    def erasure(self) -> StoreErasure | None:
        """Erases principals from the logs; None, the default, for a store that cannot."""
        return None

    @property
    def nodes(self) -> NodeMembership | None:
        """This node among those that share the store; None, the default, for a store of one process."""
        return None

    async def open(self) -> None:
        """Open the store; called once, before any other method.

        Raises:
            LogLocked: another process holds it and did not release it in time.
            LogTooNew: it was written by a newer everyword.
        """
        ...

    async def aclose(self) -> None:
        """Commit what was accepted, then release everything. Idempotent."""
        ...

    async def activate(self, agent: AgentId, *, recent: int = 256) -> Activation:
        """Take the agent's lease, with an epoch above every earlier one, and load the agent.

        From then on appends with an older epoch raise `Fenced`. An unknown agent is a new one.

        Raises:
            OwnedElsewhere: another node that lives owns the agent's root.
            LogUnavailable: it could not be read.
        """
        ...

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        """Commit the batches, those of one agent in order; return a receipt for each, in their order. Never raises.

        A batch is committed wholly, entries and rows and wake time, or not at all, whatever becomes of the others. Its
        receipt is done once it would survive this process (or, with durability "power", this machine): when this
        returns, or later, in any order. Cancelling a receipt leaves the batch wholly there or wholly absent, and
        reading tells which. The error of a receipt is one of:

            Fenced: the epoch is not the agent's current one; the caller must stop writing this agent.
            LogUnavailable: nothing was written (disk full, I/O error, a rule of the store broken).
        """
        ...

    async def destroy(self, agent: AgentId, epoch: Epoch) -> None:
        """Delete everything that is stored of the agent and of every agent below it, or nothing.

        New agents may use these names afterwards. Their epochs are above every earlier one, which fences the holders
        of old leases.

        Raises:
            Fenced: the epoch is not the agent's current one.
            LogUnavailable: nothing was deleted.
        """
        ...

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        """Return up to `limit` events with seq > `after`, in order. There are gaps where events were pruned.

        With `size`, the bodies of the events have at most that many bytes together; at least one event is returned.
        """
        ...

    async def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        """Return the stored chunks of one turn, in order; empty for a turn that is unknown, empty or pruned."""
        ...

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        """Return the agent's row and all its message rows, by node, as of one moment and without taking a lease.

        None and no rows for an unknown agent.
        """
        ...

    async def kept(self, agent: AgentId) -> list[KeptRow]:
        """Return the agent's kept rows by kind and key, without taking a lease; empty for an unknown agent."""
        ...

    async def has(self, agent: AgentId) -> bool:
        """Return True if anything was appended for the agent, without taking a lease."""
        ...

    async def agents(self, prefix: str = "") -> list[AgentId]:
        """Return the agents that have a log and whose ids begin with `prefix`, in order of creation."""
        ...

    async def agents_named(self, prefix: str, *, after: str = "", limit: int = 500) -> list[AgentId]:
        """Return up to `limit` agents with a log whose ids begin with `prefix` and come after `after`, by id."""
        ...

    async def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None:
        """Return the turn accepted under this request id, however long ago."""
        ...

    async def due(self, until: Millis, limit: int = 1000) -> list[tuple[AgentId, Millis]]:
        """Return the agents whose wake time is at or before `until`, earliest first."""
        ...

    async def next_wake(self) -> Millis | None:
        """Return the earliest wake time of all agents."""
        ...

    async def prune(self, before: Millis, *, limit: int = 2000) -> Pruned:
        """Delete `limit` old events; one small step of retention.

        Deletes chunks of turns that ended before `before`, and `state.set` events for which a newer one of the same
        agent is older than `before`. Chunks that are stored together are deleted together, so there may be a few more
        than `limit`. Runs only while no append waits. Turn rows, messages, the last state, streams of kind `rsm` and
        all other events stay.
        """
        ...

    async def erase_streams(self, agent: AgentId, until: Millis, *, limit: int = 20) -> int:
        """Delete the chunks of up to `limit` streams of kind `rsm` that ended at or before `until`, oldest first.

        Returns the number of streams; each stream is counted once, for ever. Their turn rows stay.
        """
        ...


class OneBatchAtATime:
    """For stores whose commit is a coroutine: define `append_one`, and each batch is committed by a task of its own."""

    async def append_one(self, batch: Batch) -> None:
        """Commit one batch, or raise why nothing of it was committed."""
        raise NotImplementedError

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        return [receipt_for(self.append_one(batch)) for batch in batches]


class StoreFiles(Protocol):
    """The files of a store. They may be deleted or replaced while every write still succeeds."""

    @property
    def lost(self) -> str | None:
        """What `check` found and what to do; None while the files are in place."""
        ...

    def check(self) -> None:
        """Check that the open files are still those that the next process will open; quick.

        Raises:
            LogUnavailable: they are not. The store refuses all writes from then on, until the process is restarted.
        """
        ...


class SqlResult(NamedTuple):
    """The result of a statement: the names of the columns, and the rows."""

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]


class AgentDatabases(Protocol):
    """The SQL databases of the agents. `submit` and `release` may be called from any thread."""

    def submit(self, agent: AgentId, query: str, params: Sequence[Any]) -> Future[SqlResult]:
        """Queue a statement. The statements of one agent run in order, even if no caller waits for the result.

        The result may be waited for by a blocked thread, also by that of the event loop. Its error is one of:

            SqlError: the statement failed.
            Fenced: this node does not own the agent. Nothing was written.
            LogUnavailable: the store could not be read or written. Nothing was written.
            OutcomeUnknown: the store was lost while the statement was written.
        """
        ...

    async def has(self, agent: AgentId) -> bool:
        """Return True if the agent has a database."""
        ...

    def release(self, agent: AgentId) -> Future[None]:
        """Close the agent's database after the queued statements; the next statement opens it again.

        The future is done when it is closed, and never has an error.
        """
        ...

    async def drop(self, agent: AgentId) -> None:
        """Run the queued statements, then delete the agent's database."""
        ...

    async def restore(self, agent: AgentId, image: bytes) -> None:
        """Run the queued statements, then replace the agent's database. `image` is a SQLite file in rollback mode.

        Raises:
            SqlError: it is too large for the store.
            Fenced: this node does not own the agent.
            LogUnavailable: the store could not be written. Nothing was written.
        """
        ...


class LogAdmin(Protocol):
    """Operations for tools; a running server does not use them."""

    async def replace_rows(self, agent: AgentId, rows: Iterable[Row], wake: Millis | None) -> None:
        """Replace the agent's projections, in one transaction. A store that several nodes share needs its lease.

        Raises:
            UsageError: the agent has no log.
            Fenced: this node does not hold the agent's lease. Nothing was written.
        """
        ...

    async def turns(self, agent: AgentId, *, newest: int | None = None) -> list[TurnRow]:
        """Return the agent's turn rows by ordinal; with `newest`, only that many of the newest."""
        ...
