"""The transaction that writes to the file: take a lease, append a batch, replace rows, destroy an agent.

One `Transaction` object serves one connection and is used again and again: `begin`, any number of changes, `flush`,
`commit` or `rollback`. Events and rows wait in memory until `flush`, so that the changes of many agents are written by
a few statements.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, assert_never

from ...errors import Fenced, LogUnavailable, UsageError
from ...ids import AgentId, Epoch, Millis, children_prefix
from ...rows import LISTED, TEXT, AgentRow, KeptRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow
from ..base import PRUNED, REPLAYED, Batch, Unchanged
from ..chunk_packing import Packed, pack
from .connection import BUSY_SECONDS
from .leases import NEVER, Head, Lease, Leases, TakenLease
from .lists import SHOWN, put_list_row
from .pending_events import PendingEvents
from .pending_rows import NO_SPAN, PendingRows, Span
from .row_codec import PermanentEvent
from .searches import put_text
from .statements import SQL

__all__ = ["Destruction", "Replacement", "Transaction"]


class Replacement(NamedTuple):
    """Projections that replace the present ones of an agent."""

    agent: AgentId
    rows: Iterable[Row]
    wake: Millis | None


class Destruction(NamedTuple):
    """An agent to delete, with all agents below it. `epoch` is that of the lease holder that asks."""

    agent: AgentId
    epoch: Epoch


PROJECTIONS: Final = (
    *("clear_turns", "clear_messages", "clear_kept", "clear_conversation", "clear_approvals"),
    "clear_texts",
)
"""The statements that delete the rows of an agent, except its own in `agent`."""

ERASE: Final = ("clear_marks", *PROJECTIONS, "remove_wake", "erase_agent")
"""The statements that delete an agent, besides its events. Its row stays, to fence writers with an old lease."""


class Transaction:
    """Writes everything except retention. Used by one thread at a time: the one that holds the writer's lock."""

    def __init__(self, connection: sqlite3.Connection, heads: dict[int, Head]) -> None:
        self.connection = connection
        """For code that writes something else in the same transaction, after `write_pending`."""
        self._leases = Leases(connection, heads)
        self._events = PendingEvents(connection)
        self._rows = PendingRows(connection)
        self._data_version: int | None = None
        """SQLite's count of the commits of other connections, when the leases were read; None to read them again."""
        self._busy_seconds: float | None = None

    @property
    def written(self) -> int:
        """Bytes of the events written since `begin`, as they are stored."""
        return self._events.written

    # -- begin and end -------------------------------------------------------------------------------------------------

    def begin(self, *, patience: float = 0.0) -> None:
        """Start a transaction that may write; reads the leases again if another process has written to the file.

        `patience` is the number of seconds to wait for another program that has locked the file.
        """
        if patience != self._busy_seconds:
            self.connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
            self._busy_seconds = patience
        self._events.written = 0
        self.connection.execute("BEGIN IMMEDIATE")
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self._events.restart(self._leases.load_heads() + 1)
            self._data_version = version

    def flush(self) -> None:
        """Write all events and rows that wait; the last step before `commit`."""
        self.write_pending()
        last = self._events.next_arrival - 1
        if self._leases.is_save_due(last):
            self._leases.save_heads(last)

    def write_pending(self) -> None:
        """Write all events and rows that wait, for code that reads or deletes them in the same transaction."""
        self._events.write()
        self._rows.write()

    def commit(self) -> None:
        """Commit the transaction. If this raises, the caller must call `rollback`."""
        self.connection.execute("COMMIT")
        self._events.commit()
        self._leases.commit()

    def rollback(self) -> None:
        """Roll back the transaction, if there still is one, and forget what was remembered because of it."""
        self._leases.rollback()
        self._events.rollback()
        self._rows.rollback()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        else:  # a commit that was interrupted may have succeeded: only the file knows, so read it again
            self._data_version = None

    def save_heads(self) -> None:
        """Save all heads in a transaction of its own, so that the next opening has no events to scan."""
        self.begin(patience=BUSY_SECONDS)
        self._leases.save_heads(self._events.next_arrival - 1)
        self.commit()

    def overwrite_failed_commit(self) -> None:
        """Commit a small change over the remains of a commit that failed.

        If a commit fails while SQLite syncs it to the disk, its pages are in the write-ahead log, behind its end. A
        crash before the next commit would bring them back, although the caller was told that nothing was written.
        """
        self.begin(patience=BUSY_SECONDS)
        self.connection.execute(SQL["overwrite_failed_commit"])
        self.commit()

    # -- changes -------------------------------------------------------------------------------------------------------

    def take_lease(self, agent: AgentId) -> TakenLease:
        """Raise the agent's epoch; adds the agent if it is new."""
        if agent in self._leases.changed:
            self.write_pending()  # the lease is read from the file, which must have the earlier batches
        self.connection.execute(SQL["take_lease"], (agent,))
        lease = self._leases.renew(agent)
        return TakenLease(lease.key, lease.epoch, lease.head)

    def append(self, batch: Batch) -> None:
        """Check the batch against its lease, and queue its events and rows for `flush`.

        Raises, before anything is queued:
            Fenced: the batch has another epoch than the agent.
            LogUnavailable: the batch does not begin where the log ends.
        """
        lease = self._leases.find(batch.agent)
        if lease is None or batch.epoch != lease.epoch:
            raise Fenced(f"unable to append to {batch.agent!r}; epoch {batch.epoch} no longer holds its lease")
        before, first_arrival = lease.head, self._events.next_arrival
        if batch.first != before.seq + 1:
            raise LogUnavailable(
                f"unable to append to {batch.agent!r}; its log ends at {before.seq}, the batch begins at {batch.first}"
            )
        self._leases.changed[batch.agent] = lease
        events = pack(batch.entries)
        self._events.put(lease, batch.at, events)
        if batch.rows:
            span = Span(batch.first, first_arrival, lease.head.seq, lease.head.id)
            permanent = list(_permanent_events(events, first_arrival))
            for row in batch.rows:
                self._put_row(batch.agent, lease, row, span, permanent)
        if lease.unstreamed:
            lease.unstreamed.difference_update(turn for kind, turn, _, _ in events if kind in REPLAYED)
        if not isinstance(batch.wake, Unchanged):
            lease.wake = batch.wake
        elif not batch.rows:
            return  # most batches are chunks and nothing else
        self._put_wake(lease)

    def replace(self, replacement: Replacement) -> None:
        """Replace the agent's projections; where the chunks of its turns are stored stays known."""
        lease = self._leases.find(replacement.agent)
        if lease is None:
            raise UsageError(f"unable to replace the rows of {replacement.agent!r}; it has no log")
        self._leases.changed[replacement.agent] = lease
        self.write_pending()
        spans = {turn: Span(*span) for turn, *span in self.connection.execute(SQL["turn_spans"], (lease.key,))}
        for name in ("clear_agent", *PROJECTIONS):
            self.connection.execute(SQL[name], (lease.key,))
        lease.forget_turns()
        for row in replacement.rows:
            if isinstance(row, TurnRow):
                self._rows.put_turn(lease.key, row, spans.get(row.turn, NO_SPAN))
                lease.last_turn = max(lease.last_turn, row.turn)
                lease.note_turn(row)
            else:
                self._put_row(replacement.agent, lease, row, NO_SPAN, ())
        lease.wake = replacement.wake
        self._put_wake(lease)

    def destroy(self, destruction: Destruction) -> None:
        """Delete an agent and all agents below it, including what this transaction has appended to them.

        Raises `Fenced`, before anything is deleted, for another epoch than the agent's.
        """
        lease = self._leases.find(destruction.agent)
        if lease is None or destruction.epoch != lease.epoch:
            raise Fenced(f"unable to destroy {destruction.agent!r}; its lease has another holder")
        self.write_pending()
        first = children_prefix(destruction.agent)
        beyond = first[:-1] + chr(ord(first[-1]) + 1)
        below = self.connection.execute(SQL["agents_between"], (first, beyond)).fetchall()
        for agent in (destruction.agent, *(each for _, each, _ in below)):
            self._erase(agent)

    def _erase(self, agent: AgentId) -> None:
        lease = self._leases.find(agent)
        assert lease is not None
        self._leases.changed[agent] = lease
        self.connection.execute(SQL["erase_events"], (lease.key, lease.head.id))
        for name in ERASE:
            self.connection.execute(SQL[name], (lease.key,))
        lease.epoch += 1
        lease.head = Head(0, 0)
        lease.wake = lease.stored_wake = None
        lease.forget_turns()
        self._leases.must_save = True

    def lease(self, agent: AgentId) -> Lease | None:
        """Return the agent's lease, for code that writes in the same transaction; None for an unknown agent."""
        return self._leases.find(agent)

    def rename_destroyed(self, names: tuple[AgentId, AgentId]) -> None:
        """Rename the rows that a destroyed agent and those below it leave; nothing of one that has a log again."""
        agent, new = names
        self.write_pending()
        first = children_prefix(agent)
        below = self.connection.execute(SQL["agents_between"], (first, first[:-1] + chr(ord(first[-1]) + 1))).fetchall()
        for number, each in enumerate((agent, *(each for _, each, _ in below))):
            lease = self._leases.find(each)
            if lease is not None and lease.head.seq == 0:
                self.connection.execute(SQL["rename_destroyed"], (each, f"{new}/{number}"))
                self._leases.forget(each)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _put_row(self, agent: AgentId, lease: Lease, row: Row, span: Span, permanent: Sequence[PermanentEvent]) -> None:
        match row:
            case AgentRow():
                self._rows.put_agent(lease.key, row)
            case TurnRow():
                self._put_turn(lease, row, span)
            case MessageRow():
                self._rows.put_message(lease.key, row, permanent)
            case KeptRow():
                self._put_kept(agent, lease, row)
            case RowsRemoved():
                self._rows.remove_messages(lease.key, row.nodes)
            case RowsCleared():
                self._rows.clear_messages(lease.key)
            case _:
                assert_never(row)

    def _put_kept(self, agent: AgentId, lease: Lease, row: KeptRow) -> None:
        kind, key, body = row.kind, row.key, row.body
        if kind == TEXT:
            put_text(self.connection, lease.key, row)
        elif kind in SHOWN:
            put_list_row(self.connection, agent, lease.key, row)
        if kind in LISTED:
            return
        if body is None:
            self.connection.execute(SQL["remove_kept"], (lease.key, kind, key))
        else:
            self.connection.execute(SQL["put_kept"], (lease.key, kind, key, body))

    def _put_turn(self, lease: Lease, row: TurnRow, span: Span) -> None:
        """Put a turn. Its chunks begin in this batch if none is stored yet, and end in it if the turn has ended."""
        is_unstreamed = row.turn > lease.last_turn or row.turn in lease.unstreamed
        lease.last_turn = max(lease.last_turn, row.turn)
        lease.note_turn(row)
        if not row.is_open:
            lease.unstreamed.discard(row.turn)
        else:
            span = span._replace(last=None, last_id=None)
            if is_unstreamed:
                lease.unstreamed.add(row.turn)
        self._rows.put_turn(lease.key, row, span if is_unstreamed else span._replace(first=None, first_id=None))

    def _put_wake(self, lease: Lease) -> None:
        """Update the agent's entry in the wake table. It has none while the default applies."""
        wake = lease.wake
        entry = None if wake == lease.default_wake else NEVER if wake is None else wake
        if entry != lease.stored_wake:
            self._rows.put_wake(lease.key, entry)
            lease.stored_wake = entry


def _permanent_events(events: Iterable[Packed], first_arrival: int) -> Iterator[PermanentEvent]:
    """Yield the events that retention never deletes: a message may refer to its body in one of them."""
    for arrival, (kind, _, _, body) in enumerate(events, first_arrival):
        if kind not in PRUNED:
            yield PermanentEvent(arrival, body)
