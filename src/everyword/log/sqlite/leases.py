"""Leases and heads in memory: a cache of the file, which the open transaction may be ahead of.

The cache is dropped for the agents of a transaction that fails, and read again when another process has written to
the file. That is the second line of defence behind the lock of the file (I-5).
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import msgspec

from ...ids import AgentId
from ...rows import TurnRow
from .connection import is_damage
from .statements import SQL

__all__ = ["NEVER", "Head", "Lease", "Leases", "TakenLease"]

SAVE_HEADS_EVERY = 32_768
"""Arrivals after which the heads are saved. Opening the file after a crash scans at most so many events."""

LEASES_KEPT = 65_536
"""Leases kept in memory. Any of them can be read from the file again."""

NEVER = -1
"""The value of the wake table for an agent that runs a turn and must not be woken."""


class Head(msgspec.Struct, frozen=True, order=True, gc=False):  # a Struct, because each batch makes one
    """The last event of one log: its seq and its arrival number. Both are 0 for an empty log."""

    seq: int
    id: int


class TakenLease(NamedTuple):
    """A lease just taken, with what a reader needs to load its agent."""

    key: int
    epoch: int
    head: Head

    @property
    def is_first(self) -> bool:
        """True for the first lease of an agent: there is nothing to load."""
        return self.epoch == 1


class Lease:
    """What the writer remembers of one agent.

    Attributes:
        key: The agent's number in all other tables.
        epoch: The epoch of the current holder.
        head: The last event, including events that are not committed yet.
        last_turn: The highest turn, 0 before the first.
        running: The open turns that are being answered.
        unstreamed: The open turns of which no replayed event is stored yet.
        rows_since_mark: Event rows since the last mark, or since the lease was read from the file.
        wake: When the agent is to be woken, None for never.
        stored_wake: The agent's entry in the wake table, None if it has none.
    """

    __slots__ = ("epoch", "head", "key", "last_turn", "rows_since_mark", "running", "stored_wake", "unstreamed", "wake")

    def __init__(
        self, key: int, epoch: int, head: Head, last_turn: int, running: set[int], stored_wake: int | None
    ) -> None:
        self.key, self.epoch, self.head = key, epoch, head
        self.last_turn, self.running = last_turn, running
        self.unstreamed: set[int] = set()
        self.rows_since_mark = 0
        self.stored_wake = stored_wake
        self.wake = self.default_wake if stored_wake is None else None if stored_wake == NEVER else stored_wake

    @property
    def default_wake(self) -> int | None:
        """When an agent without an entry in the wake table is woken: at once if it runs a turn, else never."""
        return 0 if self.running else None

    def note_turn(self, row: TurnRow) -> None:
        """Note whether the turn is being answered. The statement `running` applies the same rule to the file."""
        if row.is_open and row.status in ("running", "cancelling") and not row.kind.is_bare:
            self.running.add(row.turn)
        else:
            self.running.discard(row.turn)

    def forget_turns(self) -> None:
        """Forget all turns: their rows were deleted."""
        self.last_turn = 0
        self.running.clear()
        self.unstreamed.clear()


class Leases:
    """The leases by agent, and the heads that are newer than those in the agent table.

    `heads` is shared with the readers on other threads. It changes after a commit and before the commit is announced.
    """

    def __init__(self, connection: sqlite3.Connection, heads: dict[int, Head]) -> None:
        self._connection = connection
        self._heads = heads
        self._leases: dict[AgentId, Lease] = {}
        self.changed: dict[AgentId, Lease] = {}
        """The leases that the open transaction changes."""
        self.must_save = False
        """True when the open transaction deletes events: their arrivals must not be used again, even after a crash."""
        self._saved_until = 0
        """The agent table has the heads as of this arrival."""
        self._saving_until: int | None = None
        """The same, once the open transaction is committed; None unless it saves the heads."""

    def load_heads(self) -> int:
        """Drop the cache and read the heads from the file; return the last arrival that was ever used."""
        saved_until: int
        last: int
        (saved_until, _) = self._connection.execute(SQL["store_row"]).fetchone()
        (last,) = self._connection.execute(SQL["last_arrival"]).fetchone()
        self._leases.clear()
        self._heads.clear()
        self._heads.update(_newest(self._connection, saved_until, last))
        self._saved_until = saved_until
        return max(saved_until, last)

    def find(self, agent: AgentId) -> Lease | None:
        """Return the agent's lease; None for an agent without one."""
        return self._leases.get(agent) or self._read(agent)

    def renew(self, agent: AgentId) -> Lease:
        """Read a lease whose epoch was just raised in the file, and keep what only memory has of it."""
        before = self._leases.pop(agent, None)
        lease = self._read(agent)
        assert lease is not None, "a row with the epoch was written"
        if before is not None:
            lease.head, lease.unstreamed, lease.rows_since_mark = before.head, before.unstreamed, before.rows_since_mark
        self.changed[agent] = lease
        return lease

    def forget(self, agent: AgentId) -> None:
        """Forget a lease whose row has another name now."""
        self._leases.pop(agent, None)
        self.changed.pop(agent, None)

    def is_save_due(self, last: int) -> bool:
        """True if the heads are to be saved with the open transaction, whose last arrival is `last`."""
        return self.must_save or last - self._saved_until >= SAVE_HEADS_EVERY

    def save_heads(self, last: int) -> None:
        """Write all heads to the agent table, in the open transaction, whose last arrival is `last`."""
        heads = self._heads | {lease.key: lease.head for lease in self.changed.values()}
        self._connection.executemany(SQL["set_head"], [(key, head.seq, head.id) for key, head in heads.items()])
        self._connection.execute(SQL["set_scanned"], (last,))
        self._saving_until = last

    def commit(self) -> None:
        """Publish the heads of a transaction that was just committed."""
        if self._saving_until is None:
            for lease in self.changed.values():
                self._heads[lease.key] = lease.head
        else:
            self._saved_until = self._saving_until
            self._heads.clear()
            if len(self._leases) > LEASES_KEPT:
                self._leases.clear()
        self._end()

    def rollback(self) -> None:
        """Forget the leases that the failed transaction has changed."""
        for agent in self.changed:
            self._leases.pop(agent, None)
        self._end()

    def _end(self) -> None:
        self.changed.clear()
        self._saving_until, self.must_save = None, False

    def _read(self, agent: AgentId) -> Lease | None:
        record = self._connection.execute(SQL["lease"], (agent,)).fetchone()
        if record is None:
            return None
        key, epoch, seq, head_id, stored_wake, last_turn = record
        running = self._connection.execute(SQL["running"], (key,)).fetchall() if last_turn else []
        head = self._heads.get(key, Head(seq, head_id))
        lease = Lease(key, epoch, head, last_turn, {turn for (turn,) in running}, stored_wake)
        self._leases[agent] = lease
        return lease


def _newest(connection: sqlite3.Connection, after: int, until: int) -> dict[int, Head]:
    """Return the last event of each agent between two arrivals; skips pages that cannot be read."""
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
