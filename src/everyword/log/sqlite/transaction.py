"""What fills a transaction: leases, heads and arrivals in memory, events and rows on their way to the file.

A scribe belongs to whoever has the writer's seat. Its memory is a cache of the file: it runs ahead of it between
`begin` and `commit`, is thrown away where a transaction fails, and is read anew when somebody else has
written (the net under the file's lock, I-5).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, assert_never

import msgspec

from ...errors import Fenced, LogUnavailable, UsageError
from ...ids import AgentId, Epoch, Millis, children_prefix
from ...rows import AgentRow, KeptRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow
from ..base import PRUNED, REPLAYED, UNCHANGED, Batch, Unchanged
from .chunk_packing import pack
from .connection import BUSY_SECONDS, is_damage
from .pending_rows import NEVER, NOWHERE, PendingRows, Span, insert
from .row_codec import PermanentEvent
from .statements import SQL

__all__ = ["Destruction", "Head", "Replacement", "TakenLease", "Transaction"]

ROWS_PER_MARK = 256
"""A row in so many is marked: a reader walks at most that far to where it wants to begin."""

EVENTS_PER_MARK = 1024
"""And an event in so many, if they come with few rows: what lies between two marks is read at once."""

SAVE_HEADS_EVERY = 32_768
"""After so many arrivals the heads are written down: what opening after a crash has to look through at most."""

BODY, COLUMNS = 7, 9
"""Where an event's body stands among its columns."""

LEASES_KEPT = 65_536
"""So many leases are remembered; any of them can be read again."""


class Head(msgspec.Struct, frozen=True, order=True, gc=False):  # a Struct: there is one per token
    """The end of one log."""

    seq: int
    id: int


class TakenLease(NamedTuple):
    """A lease just taken: all that a reader needs to load its agent."""

    key: int
    epoch: int
    head: Head

    @property
    def is_first(self) -> bool:
        """Whether nobody ever held one: there is nothing to load."""
        return self.epoch == 1


class Replacement(NamedTuple):
    """Projections that take the place of an agent's present ones."""

    agent: AgentId
    rows: Iterable[Row]
    wake: Millis | None


class Destruction(NamedTuple):
    """An agent that is to be deleted, with all below it, by the holder of its lease."""

    agent: AgentId
    epoch: Epoch


ERASE: Final = ("clear_marks", "clear_turns", "clear_messages", "clear_kept", "remove_wake", "erase_agent")
"""What is deleted of an agent besides its events, and that a row is left to fence its writers."""


class _Lease:
    """What the scribe knows of one agent.

    `quiet` are open turns of which nothing streamed is stored, `running` those that somebody answers. `wake` is when
    the agent wants to be woken, `noted` what the wake table says of it. `unmarked` are the rows since its last mark, or
    since it was read from the file.
    """

    __slots__ = ("epoch", "head", "head_id", "key", "last_turn", "noted", "quiet", "running", "unmarked", "wake")

    def __init__(self, key: int, epoch: int, head: Head, last_turn: int, running: set[int], noted: int | None) -> None:
        self.key, self.epoch = key, epoch
        self.head, self.head_id = head.seq, head.id
        self.last_turn, self.running = last_turn, running
        self.quiet: set[int] = set()
        self.noted = noted
        self.unmarked = 0
        self.wake = self.implied if noted is None else None if noted == NEVER else noted

    @property
    def implied(self) -> int | None:
        """When the agent is woken if the wake table says nothing of it: who runs a turn is to go on with it at once."""
        return 0 if self.running else None

    def note_running(self, row: TurnRow) -> None:
        """Take in whether the turn is one that somebody answers; the file tells it by the same rule (`running`)."""
        if row.is_open and row.status in ("running", "cancelling") and not row.kind.is_bare:
            self.running.add(row.turn)
        else:
            self.running.discard(row.turn)


class Transaction:
    """Everything that is written, but for retention.

    `heads` has the ends of the logs that grew since they were last carried into the table. Readers look at
    it from other threads: it changes after a commit, and before anybody is told of it.
    """

    def __init__(self, connection: sqlite3.Connection, heads: dict[int, Head]) -> None:
        self._connection = connection
        self._heads = heads
        self._leases: dict[AgentId, _Lease] = {}
        self._touched: dict[AgentId, _Lease] = {}
        self._events: list[Any] = []
        """The columns of the events, one event after the other."""
        self._marks: list[Any] = []
        self.written = 0
        """Bytes of the events in this transaction, as they are stored."""
        self._sheet = PendingRows(connection)
        self._next = 0
        self._committed = 0
        self._scanned = 0
        self._carried: int | None = None
        self._must_carry = False
        """Arrivals were deleted: none of them may be given again, not even after a crash."""
        self._version: int | None = None
        self._patience: float | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """For whoever writes something else in the same transaction."""
        return self._connection

    def begin(self, *, patience: float = 0.0) -> None:
        """Start a transaction that may write; reads the file anew if another process has written to it.

        `patience` is for how many seconds to wait for a foreign program that has the file locked.
        """
        if patience != self._patience:
            self._connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
            self._patience = patience
        self.written = 0
        self._connection.execute("BEGIN IMMEDIATE")
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._recall()
            self._version = version

    def take_lease(self, agent: AgentId) -> TakenLease:
        """Raise the agent's epoch, which makes it known if it was not."""
        if agent in self._touched:
            self.write_pending()  # what is read of it below is to be what the batches before have made of it
        self._connection.execute(SQL["take_lease"], (agent,))
        lease = self._leases.pop(agent, None)
        fresh = self._lease(agent)
        assert fresh is not None
        if lease is not None:
            fresh.head, fresh.head_id, fresh.quiet = lease.head, lease.head_id, lease.quiet
            fresh.unmarked = lease.unmarked
        self._touched[agent] = fresh
        return TakenLease(fresh.key, fresh.epoch, Head(fresh.head, fresh.head_id))

    def append(self, batch: Batch) -> None:
        """Check the batch against its lease, write its rows, and keep its events for `flush`.

        Raises, before anything is written:
            Fenced: the batch has another epoch than the agent.
            LogUnavailable: it does not begin where the log ends.
        """
        lease = self._leases.get(batch.agent) or self._lease(batch.agent)
        if lease is None or batch.epoch != lease.epoch:
            raise Fenced(f"unable to append to {batch.agent!r}; epoch {batch.epoch} no longer holds its lease")
        if batch.first != lease.head + 1:
            raise LogUnavailable(
                f"unable to append to {batch.agent!r}; its log ends at {lease.head}, the batch begins at {batch.first}"
            )
        self._touched[batch.agent] = lease
        first_id, (streamed, lasting) = self._next, self._keep(lease, batch)
        if batch.rows:
            span = Span(batch.first, first_id, lease.head, lease.head_id)
            for row in batch.rows:
                self._put(lease, row, span, lasting)
        for turn in streamed:
            lease.quiet.discard(turn)
        if not isinstance(batch.wake, Unchanged):
            lease.wake = batch.wake
        if batch.rows or batch.wake is not UNCHANGED:
            self._note_wake(lease)

    def replace(self, replacement: Replacement) -> None:
        """Drop the agent's projections and write others; where its turns' chunks lie is kept."""
        lease = self._lease(replacement.agent)
        if lease is None:
            raise UsageError(f"unable to replace the rows of {replacement.agent!r}; it has no log")
        self._touched[replacement.agent] = lease
        self.write_pending()
        spans = {turn: Span(*span) for turn, *span in self._connection.execute(SQL["turn_spans"], (lease.key,))}
        for name in ("clear_agent", "clear_turns", "clear_messages", "clear_kept"):
            self._connection.execute(SQL[name], (lease.key,))
        lease.quiet.clear()
        lease.running.clear()
        lease.last_turn = 0
        for row in replacement.rows:
            if isinstance(row, TurnRow):
                self._sheet.put_turn(lease.key, row, spans.get(row.turn, NOWHERE))
                lease.last_turn = max(lease.last_turn, row.turn)
                lease.note_running(row)
            else:
                self._put(lease, row, NOWHERE, ())
        lease.wake = replacement.wake
        self._note_wake(lease)

    def destroy(self, destruction: Destruction) -> None:
        """Delete an agent and all below it, with what this transaction has brought for them.

        Raises `Fenced`, before anything is deleted, for another epoch than the agent's.
        """
        lease = self._lease(destruction.agent)
        if lease is None or destruction.epoch != lease.epoch:
            raise Fenced(f"unable to destroy {destruction.agent!r}; its lease has another holder")
        self.write_pending()
        first = children_prefix(destruction.agent)
        beyond = first[:-1] + chr(ord(first[-1]) + 1)
        below = self._connection.execute(SQL["agents_between"], (first, beyond)).fetchall()
        for agent in (destruction.agent, *(each for _, each, _ in below)):
            self._erase(agent)

    def _erase(self, agent: AgentId) -> None:
        lease = self._lease(agent)
        assert lease is not None
        self._touched[agent] = lease
        self._connection.execute(SQL["erase_events"], (lease.key, lease.head_id))
        for name in ERASE:
            self._connection.execute(SQL[name], (lease.key,))
        lease.epoch += 1
        lease.head = lease.head_id = lease.last_turn = 0
        lease.wake = lease.noted = None
        lease.quiet.clear()
        lease.running.clear()
        self._must_carry = True

    def flush(self) -> None:
        """Write the events of all batches, in order of arrival; the last thing before `commit`."""
        self.write_pending()
        if self._must_carry or self._next - self._scanned > SAVE_HEADS_EVERY:
            self._carry()

    def write_pending(self) -> None:
        """Write what was kept so far, for whoever looks at the file in the same transaction."""
        self.written += sum(map(len, self._events[BODY::COLUMNS]))
        insert(self._connection, SQL["append_event"], self._events)
        insert(self._connection, SQL["put_mark"], self._marks)
        self._events.clear()
        self._marks.clear()
        self._sheet.write()

    def save_heads(self) -> None:
        """Write all heads down in a transaction of its own, so that the next opening has nothing to look through."""
        self.begin(patience=BUSY_SECONDS)
        self._carry()
        self.commit()

    def commit(self) -> None:
        """Make the transaction count. If this raises, `rollback` must follow."""
        self._connection.execute("COMMIT")
        self._committed = self._next
        if self._carried is not None:
            self._scanned = self._carried
            self._heads.clear()
            if len(self._leases) > LEASES_KEPT:
                self._leases.clear()
        else:
            self._heads.update({each.key: Head(each.head, each.head_id) for each in self._touched.values()})
        self._forget()

    def rollback(self) -> None:
        """Take back the transaction, if there still is one, and all that was remembered because of it."""
        for agent in self._touched:
            self._leases.pop(agent, None)
        self._next = self._committed
        self._forget()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        else:  # who was stopped in the middle of a commit cannot tell whether it counts: the file can
            self._version = None

    def overwrite_failed_commit(self) -> None:
        """Overwrite what a failed commit may have left behind.

        If a commit fails while it is forced to the disk, its pages are in the write-ahead log, beyond its
        end. A crash before the next commit would bring them back, although we have said that they are gone.
        """
        self.begin(patience=BUSY_SECONDS)
        self._connection.execute(SQL["seal"])
        self.commit()

    def _forget(self) -> None:
        self._touched.clear()
        self._events.clear()
        self._marks.clear()
        self._sheet.drop()
        self._carried = None
        self._must_carry = False

    def _recall(self) -> None:
        """Read from the file what memory is a cache of."""
        (scanned, _) = self._connection.execute(SQL["store_row"]).fetchone()
        (last,) = self._connection.execute(SQL["last_arrival"]).fetchone()
        self._leases.clear()
        self._heads.clear()
        self._heads.update(_newest(self._connection, scanned, last))
        self._scanned, self._next = scanned, max(scanned, last) + 1
        self._committed = self._next

    def _carry(self) -> None:
        heads = self._heads | {each.key: Head(each.head, each.head_id) for each in self._touched.values()}
        self._connection.executemany(SQL["set_head"], [(key, head.seq, head.id) for key, head in heads.items()])
        self._carried = self._next - 1
        self._connection.execute(SQL["set_scanned"], (self._carried,))

    def _lease(self, agent: AgentId) -> _Lease | None:
        lease = self._leases.get(agent)
        if lease is None:
            record = self._connection.execute(SQL["lease"], (agent,)).fetchone()
            if record is None:
                return None
            key, epoch, seq, head_id, noted, last_turn = record
            running = self._connection.execute(SQL["running"], (key,)).fetchall() if last_turn else []
            head = self._heads.get(key, Head(seq, head_id))
            lease = _Lease(key, epoch, head, last_turn, {turn for (turn,) in running}, noted)
            self._leases[agent] = lease
        return lease

    def _keep(self, lease: _Lease, batch: Batch) -> tuple[set[int], list[PermanentEvent]]:
        """Keep the batch's events.

        Returns the turns of which something is replayed from it, and the events that stay.
        """
        key, at = lease.key, batch.at
        seq, arrival, before = lease.head, self._next, lease.head_id
        streamed: set[int] = set()
        lasting: list[PermanentEvent] = []
        is_alone = not batch.rows and not lease.quiet  # somebody's next words: nobody asks what is returned for them
        for kind, turn, more, body in pack(batch.entries):
            unmarked = EVENTS_PER_MARK - seq % EVENTS_PER_MARK
            seq += more + 1
            lease.unmarked += 1
            self._events += (arrival, key, seq, at, kind, turn, arrival - before if before else 0, body, more)
            if more + 1 >= unmarked or lease.unmarked >= ROWS_PER_MARK:
                lease.unmarked = 0
                self._marks += (key, seq, arrival)
            if not is_alone:
                if turn is not None and kind in REPLAYED:
                    streamed.add(turn)
                if kind not in PRUNED:
                    lasting.append(PermanentEvent(arrival, body))
            before, arrival = arrival, arrival + 1
        lease.head, lease.head_id, self._next = seq, before, arrival
        return streamed, lasting

    def _put(self, lease: _Lease, row: Row, span: Span, lasting: Sequence[PermanentEvent]) -> None:
        execute = self._connection.execute
        match row:
            case AgentRow():
                self._sheet.put_agent(lease.key, row)
            case TurnRow():
                self._put_turn(lease, row, span)
            case MessageRow():
                self._sheet.put_message(lease.key, row, lasting)
            case KeptRow(kind, key, body):
                if body is None:
                    execute(SQL["remove_kept"], (lease.key, kind, key))
                else:
                    execute(SQL["put_kept"], (lease.key, kind, key, body))
            case RowsRemoved():
                self._sheet.remove_messages(lease.key, row.nodes)
            case RowsCleared():
                self._sheet.clear_messages(lease.key)
            case _:
                assert_never(row)

    def _put_turn(self, lease: _Lease, row: TurnRow, span: Span) -> None:
        is_quiet = row.turn > lease.last_turn or row.turn in lease.quiet
        lease.last_turn = max(lease.last_turn, row.turn)
        lease.note_running(row)
        if not row.is_open:
            lease.quiet.discard(row.turn)
        else:
            span = span._replace(last=None, last_id=None)
            if is_quiet:
                lease.quiet.add(row.turn)
        self._sheet.put_turn(lease.key, row, span if is_quiet else span._replace(first=None, first_id=None))

    def _note_wake(self, lease: _Lease) -> None:
        """Have the wake table say when the agent is to be woken, if it is not what goes without saying."""
        wake, is_implied = lease.wake, lease.wake == lease.implied
        noted = None if is_implied else NEVER if wake is None else Millis(wake)
        if noted != lease.noted:
            self._sheet.put_wake(lease.key, noted)
            lease.noted = noted


def _newest(connection: sqlite3.Connection, after: int, until: int) -> dict[int, Head]:
    """Return the last event of each agent between two arrivals, passing over pages that cannot be read."""
    try:
        records = connection.execute(SQL["newest_events"], (after, until)).fetchall()
    except sqlite3.DatabaseError as exc:
        if not is_damage(exc):
            raise
        if until - after <= 1:
            return {}
        middle = (after + until) // 2
        return _newest(connection, after, middle) | _newest(connection, middle, until)
    return {key: Head(seq, arrival) for key, seq, arrival in records}
