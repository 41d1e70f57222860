"""The events of the open transaction, which are written together at its end, in order of arrival."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from ...ids import Millis
from ..chunk_packing import Packed
from .bulk_insert import MANY, insert_rows
from .leases import Head, Lease
from .statements import SQL

__all__ = ["PendingEvents"]

ROWS_PER_MARK = 256
"""Every so many rows of an agent get a mark: a reader walks at most that far to the event it starts with."""

EVENTS_PER_MARK = 1024
"""Rows with many chunks get a mark every so many events: a reader loads what lies between two marks at once."""

BODY, COLUMNS = 7, 9
"""The position of an event's body among its columns."""


class PendingEvents:
    """Numbers events by arrival, links each to the one before in its log, and marks where a reader can enter a log."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._events: list[Any] = []
        """The columns of all events, one event after the other."""
        self._marks: list[Any] = []
        self.next_arrival = 0
        self._committed = 0
        """`next_arrival` as of the last commit."""
        self.written = 0
        """Bytes of the events written in this transaction, as they are stored."""

    def restart(self, next_arrival: int) -> None:
        """Continue at an arrival that was read from the file."""
        self.next_arrival = self._committed = next_arrival

    def put(self, lease: Lease, at: Millis, rows: Iterable[Packed]) -> None:
        """Append event rows at the head of a log, and move the head."""
        key, seq, before, arrival = lease.key, lease.head.seq, lease.head.id, self.next_arrival
        for kind, turn, more, body in rows:
            until_mark = EVENTS_PER_MARK - seq % EVENTS_PER_MARK
            seq += more + 1
            lease.rows_since_mark += 1
            self._events += (arrival, key, seq, at, kind, turn, arrival - before if before else 0, body, more)
            if more + 1 >= until_mark or lease.rows_since_mark >= ROWS_PER_MARK:
                lease.rows_since_mark = 0
                self._marks += (key, seq, arrival)
            before, arrival = arrival, arrival + 1
        lease.head, self.next_arrival = Head(seq, before), arrival

    def write(self) -> None:
        """Write the events that wait."""
        if self._events:
            self.written += sum(map(len, self._events[BODY::COLUMNS]))
            insert_rows(self._connection, SQL["append_event"], self._events, MANY)
            self._events.clear()
        if self._marks:
            insert_rows(self._connection, SQL["put_mark"], self._marks, MANY)
            self._marks.clear()

    def commit(self) -> None:
        """Note that the transaction was committed."""
        self._committed = self.next_arrival

    def rollback(self) -> None:
        """Forget the events that wait; their arrivals are used again."""
        self._events.clear()
        self._marks.clear()
        self.next_arrival = self._committed
