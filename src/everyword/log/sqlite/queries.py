"""Queries of the log. Each one reads one short snapshot of the file, over one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...errors import LogCorrupt
from ...ids import AgentId, Epoch, Millis, RequestId, Seq, TurnId
from ...rows import AgentRow, KeptRow, MessageRow, TurnRow
from ..base import REPLAYED, Activation, Stored
from ..chunk_packing import MAX_PACKED_BYTES, unpack
from .connection import is_damage
from .leases import Head, TakenLease
from .row_codec import Record, message_row, to_agent_row, turn_row, turn_rows
from .statements import SQL

__all__ = ["Reader"]

EMPTY = Head(0, 0)
"""The head of an empty log."""

UNLIMITED = 2**62

LAST = "\U0010ffff"
"""The last character: an id that begins with a prefix is below the prefix with this one appended."""

MARKS_AT_ONCE = 64
"""Marks that are read with one statement."""


class _Snapshot(NamedTuple):
    """An agent in one snapshot: its key, its head and its row."""

    key: int
    head: Head
    row: AgentRow | None


class Reader:
    """One connection that reads. `heads` belongs to the writer and is only read here."""

    def __init__(self, connection: sqlite3.Connection, heads: Mapping[int, Head]) -> None:
        self._connection = connection
        self._heads = heads

    def close(self) -> None:
        self._connection.close()

    def load(self, agent: AgentId, lease: TakenLease, recent: int) -> Activation:
        """Load what the holder of a new lease needs."""
        with self._snapshot(agent) as snapshot:
            assert snapshot is not None
            last_at = self._time_of(lease.head)
            turns = turn_rows(self._all("turns_to_load", lease.key, recent))
            messages = [message_row(each) for each in self._all("messages", lease.key)]
            kept = [KeptRow(*each) for each in self._all("kept", lease.key)]
            open_turns = {row.turn for row in turns if row.is_open}
            chunks: list[Stored] = []
            if open_turns:
                (first,) = self._one("open_span", lease.key) or (1,)
                events = self._events(agent, snapshot._replace(head=lease.head), first - 1)
                chunks = [each for each in events if each.kind in REPLAYED and each.turn in open_turns]
        return Activation(
            epoch=Epoch(lease.epoch),
            head=Seq(lease.head.seq),
            agent=snapshot.row,
            turns=turns,
            messages=messages,
            chunks=chunks,
            kept=kept,
            last_at=last_at,
        )

    def _time_of(self, head: Head) -> Millis:
        """Return the time of the last event; 0 if there is none, or if it is damaged: loading does not need it."""
        try:
            found = self._one("event_time", head.id)
        except sqlite3.DatabaseError as exc:
            if not is_damage(exc):
                raise
            return Millis(0)
        return Millis(found[0]) if found is not None and type(found[0]) is int else Millis(0)

    def read(self, agent: AgentId, after: Seq, limit: int, size: int | None = None) -> list[Stored]:
        with self._snapshot(agent) as snapshot:
            return [] if snapshot is None else self._events(agent, snapshot, after, limit=limit, size=size)

    def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        with self._snapshot(agent) as snapshot:
            span = None if snapshot is None else self._one("turn_span", snapshot.key, turn)
            if snapshot is None or span is None:
                return []
            first, last = span
            events = self._events(agent, snapshot, first - 1, until=last)
            return [each for each in events if each.kind == "chunk" and each.turn == turn]

    def head(self, agent: AgentId) -> Head:
        """Return the head of the agent's log."""
        with self._snapshot(agent) as snapshot:
            return EMPTY if snapshot is None else snapshot.head

    def messages(self, agent: AgentId) -> list[MessageRow]:
        return self.conversation(agent)[1]

    def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        with self._snapshot(agent) as snapshot:
            if snapshot is None:
                return None, []
            return snapshot.row, [message_row(each) for each in self._all("messages", snapshot.key)]

    def kept(self, agent: AgentId) -> list[KeptRow]:
        with self._snapshot(agent) as snapshot:
            return [] if snapshot is None else [KeptRow(*each) for each in self._all("kept", snapshot.key)]

    def agent_row(self, agent: AgentId) -> AgentRow | None:
        with self._snapshot(agent) as snapshot:
            return None if snapshot is None else snapshot.row

    def has(self, agent: AgentId) -> bool:
        with self._snapshot(agent) as snapshot:
            return snapshot is not None and snapshot.head.seq > 0

    def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None:
        with self._snapshot(agent) as snapshot:
            found = None if snapshot is None else self._one("turn_by_request", snapshot.key, request)
            return None if found is None else turn_row(found)

    def turns(self, agent: AgentId, newest: int | None) -> list[TurnRow]:
        with self._snapshot(agent) as snapshot:
            limit = UNLIMITED if newest is None else newest
            found = [] if snapshot is None else self._all("newest_turns", snapshot.key, limit)
            return turn_rows(reversed(found))

    def agents(self, prefix: str = "") -> list[AgentId]:
        # Ids are sorted by their bytes, so a prefix is a range of the index. No kind begins with the last character.
        found = self._all("agents_between", prefix, f"{prefix}{LAST}") if prefix else self._all("agents")
        return [each for key, each, head in found if head or self._heads.get(key, EMPTY).seq]

    def agents_named(self, prefix: str, after: str, limit: int) -> list[AgentId]:
        named: list[AgentId] = []
        while len(named) < limit:
            found = self._all("agents_after", prefix, after, limit)
            for key, each, head in found:
                if not each.startswith(prefix):  # sorted by id, those with one prefix follow each other
                    return named
                if len(named) < limit and (head or self._heads.get(key, EMPTY).seq):
                    named.append(each)
            if len(found) < limit:
                break
            after = found[-1][1]
        return named

    def due(self, until: Millis, limit: int) -> list[tuple[AgentId, Millis]]:
        return [(agent, at) for agent, at in self._all("due", until, limit)]

    def next_wake(self) -> Millis | None:
        (at,) = self._one("next_wake") or (None,)
        return None if at is None else Millis(at)

    @contextmanager
    def _snapshot(self, agent: AgentId) -> Iterator[_Snapshot | None]:
        """Open a snapshot and find the agent and its head; None for an unknown agent.

        The writer's head is read before the snapshot is opened, so the snapshot has that event.
        """
        known = self._one("agent_by_id", agent)
        recent = EMPTY if known is None else self._heads.get(known[0], EMPTY)
        with self.at_one_time():
            found = self._one("agent_by_id", agent)
            if found is None:
                yield None
            else:
                key, seq, arrival, *row = found
                yield _Snapshot(key, max(recent, Head(seq, arrival)), to_agent_row(tuple(row)))

    def _events(
        self,
        agent: AgentId,
        snapshot: _Snapshot,
        after: int,
        *,
        until: int | None = None,
        limit: int = UNLIMITED,
        size: int | None = None,
    ) -> list[Stored]:
        """Return the events with `after` < seq <= `until`, by walking from mark to mark.

        At most `limit` events, and at most `size` bytes of bodies, but at least one event if there is one.
        """
        found: list[Stored] = []
        room = UNLIMITED if size is None else size
        head = snapshot.head
        last = head.seq if until is None else min(until, head.seq)
        low = after
        while low < last and len(found) < limit:
            marks = [Head(*mark) for mark in self._all("marks_after", snapshot.key, low, head.seq, MARKS_AT_ONCE)]
            if len(marks) < MARKS_AT_ONCE:
                marks.append(head)
            for mark in marks:
                for each in self._walk(agent, snapshot.key, mark, low, is_page=size is not None):
                    if len(found) >= limit or (found and len(each.body) > room):
                        return _without_later(found, last)
                    room -= len(each.body)
                    found.append(each)
                low = mark.seq
                if low >= last or len(found) >= limit:
                    break
        return _without_later(found, last)

    def _walk(self, agent: AgentId, key: int, mark: Head, low: int, *, is_page: bool) -> Iterator[Stored]:
        """Yield the events after `low` up to a mark or the head. A page reads each body when it is needed."""
        rows = self._all("walk_places" if is_page else "walk", key, mark.id, low)
        for more, seq, *_ in rows:
            if type(more) is not int or type(seq) is not int or not 0 <= more < min(seq, MAX_PACKED_BYTES):
                raise LogCorrupt(f"unable to read the log of {agent!r}; the row of event {seq!r} is damaged")
        if rows and (rows[0][1] != mark.seq or _count(rows) != mark.seq - rows[-1][1] + rows[-1][0] + 1):
            raise LogCorrupt(f"unable to read the log of {agent!r}; its events before seq {mark.seq} are not in order")
        for more, seq, *rest in reversed(rows):
            stored: Sequence[Any] | None = self._one("event_at", *rest) if is_page else rest
            assert stored is not None, "the same snapshot has the row"
            if more:
                yield from _unpack_after(more, seq, stored, low)
            else:
                yield Stored(seq, *stored)

    @contextmanager
    def at_one_time(self) -> Iterator[None]:
        """Let the statements of the block see the same commits."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def rows(self, name: str, values: Sequence[Any]) -> list[Record]:
        """Return what a statement selects."""
        return self._connection.execute(SQL[name], values).fetchall()

    def _all(self, name: str, *values: Any) -> list[Record]:
        return self._connection.execute(SQL[name], values).fetchall()

    def _one(self, name: str, *values: Any) -> Record | None:
        record: Record | None = self._connection.execute(SQL[name], values).fetchone()
        return record


def _without_later(found: list[Stored], last: int) -> list[Stored]:
    while found and found[-1].seq > last:
        found.pop()
    return found


def _count(rows: Iterable[Record]) -> int:
    """Return the number of events in the rows of a walk, without unpacking them."""
    return sum(more + 1 for more, *_ in rows)


def _unpack_after(more: int, last: int, rest: Sequence[Any], low: int) -> Iterator[Stored]:
    """Yield the events of a packed row that come after seq `low`."""
    at, kind, turn, body = rest
    for seq, each in enumerate(unpack(body, more), start=last - more):
        if seq > low:
            yield Stored(Seq(seq), at, kind, turn, each)
