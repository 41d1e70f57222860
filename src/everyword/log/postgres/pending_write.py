"""Everything that one transaction writes: events in order, and of each row the last version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from ...errors import LogUnavailable
from ...rows import TEXT, AgentRow, KeptRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow
from ..base import Batch, Unchanged
from ..chunk_packing import pack
from .agent_leases import AgentLease
from .days import Days
from .row_codec import message_record, turn_record

__all__ = ["PendingWrite", "PostgresPendingRows"]


class PostgresPendingRows:
    """The rows of one transaction, by key."""

    def __init__(self, days: Days) -> None:
        self._days = days
        self._turns: dict[tuple[int, int], tuple[TurnRow, int, int]] = {}
        self._messages: dict[tuple[int, int], MessageRow] = {}
        self._kept: dict[tuple[int, str, str], bytes | None] = {}
        self._agents: dict[int, AgentRow] = {}
        self._wakes: dict[int, int | None] = {}
        self._removed: list[tuple[int, int]] = []
        self._cleared: set[int] = set()
        self.heads: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.heads or self._wakes)

    def put(self, key: int, row: Row, first_seq: int) -> None:
        """Add one row of an agent."""
        match row:
            case AgentRow():
                self._agents[key] = row
            case TurnRow():
                self._put_turn(key, row, first_seq)
            case MessageRow():
                self._messages[key, row.node] = row
            case KeptRow():
                self._put_kept(key, row)
            case RowsRemoved():
                for node in row.nodes:
                    self._messages.pop((key, node), None)
                    self._removed.append((key, node))
            case RowsCleared():
                self._cleared.add(key)
                for place in [place for place in self._messages if place[0] == key]:
                    del self._messages[place]
            case _:
                assert_never(row)

    def _put_turn(self, key: int, row: TurnRow, first_seq: int) -> None:
        old = self._turns.get((key, row.turn))
        part, first = (self._days.part_of(row), first_seq) if old is None else old[1:]
        self._turns[key, row.turn] = row, part, first

    def _put_kept(self, key: int, row: KeptRow) -> None:
        if row.kind != TEXT:
            self._kept[key, row.kind, row.key] = row.body
            return
        # Texts are written in order, those that go as well: they are not kept, a trigger puts them elsewhere.
        self._kept.pop((key, row.kind, row.key), None)
        self._kept[key, row.kind, row.key] = row.body or b""

    def check(self, key: int, rows: Sequence[Row]) -> None:
        """Raise `LogUnavailable` if a turn would end twice: only the last version of a row reaches the database."""
        ended = dict[int, TurnRow]()
        for row in rows:
            if not isinstance(row, TurnRow):
                continue
            pending = self._turns.get((key, row.turn))
            old = ended.get(row.turn, pending[0] if pending is not None else row)
            if not old.is_open and _ending(old) != _ending(row):
                raise LogUnavailable(f"unable to append; turn {row.turn} has ended, and ends once (I-1)")
            ended[row.turn] = row

    def wake(self, key: int, at: int | None) -> None:
        self._wakes[key] = at

    def arguments(self) -> list[Any]:
        """Return the arguments of `put_rows_1`."""
        return [
            *(list(self.heads), list(self.heads.values())),
            *([key for key, _ in self._removed], [node for _, node in self._removed], list(self._cleared)),
            [turn_record(key, row, part, first) for (key, _), (row, part, first) in self._turns.items()],
            [message_record(key, row) for (key, _), row in self._messages.items()],
            [(*key, body) for key, body in self._kept.items() if body is not None],
            [(*key, b"") for key, body in self._kept.items() if body is None],
            [(key, row.generation, row.leaf, row.last_turn, row.last_node) for key, row in self._agents.items()],
            [key for key, at in self._wakes.items() if at is not None],
            [at for at in self._wakes.values() if at is not None],
            [key for key, at in self._wakes.items() if at is None],
        ]


class PendingWrite:
    """The batches of one transaction. Adding one moves the head of its lease; `undo` moves all of them back."""

    def __init__(self, days: Days) -> None:
        self.rows = PostgresPendingRows(days)
        self._days = days
        self._leases: dict[int, tuple[AgentLease, int]] = {}
        self._events: tuple[list[Any], ...] = ([], [], [], [], [], [], [], [], [])
        self._states: tuple[list[int], list[int], list[int]] = ([], [], [])

    def add(self, lease: AgentLease, batch: Batch) -> None:
        """Add a batch as a whole; raises `LogUnavailable` if its rows contradict those before."""
        key = lease.key
        self.rows.check(key, batch.rows)
        if key not in self._leases:
            self._leases[key] = lease, lease.head
        for row in batch.rows:
            self.rows.put(key, row, batch.first)
            if isinstance(row, TurnRow) and row.is_open and row.turn not in lease.parts:
                lease.parts[row.turn] = self._days.part_of(row)
        self._add_events(lease, batch)
        if batch.rows:
            self.rows.heads[key] = lease.head
            for row in batch.rows:
                if isinstance(row, TurnRow) and not row.is_open:
                    lease.parts.pop(row.turn, None)
        if not isinstance(batch.wake, Unchanged):
            self.rows.wake(key, batch.wake)

    def _add_events(self, lease: AgentLease, batch: Batch) -> None:
        agents, seqs, parts, epochs, ats, kinds, turns, mores, bodies = self._events
        seq = lease.head
        for kind, turn, more, body in pack(batch.entries):
            seq += more + 1
            agents.append(lease.key)
            seqs.append(seq)
            parts.append(lease.parts.get(turn, 0) if kind == "chunk" and turn is not None else 0)
            epochs.append(lease.epoch)
            ats.append(batch.at)
            kinds.append(kind)
            turns.append(turn)
            mores.append(more)
            bodies.append(body)
            if kind == "state.set":
                for column, value in zip(self._states, (lease.key, seq, batch.at), strict=True):
                    column.append(value)
        lease.head = seq

    def undo(self) -> None:
        """Put the heads back: nothing of this was written."""
        for lease, head in self._leases.values():
            lease.head = head

    def fence_arguments(self) -> list[list[int]]:
        """Return whose leases are to be checked: keys, epochs, roots and terms."""
        leases = [lease for lease, _ in self._leases.values()]
        return [
            [lease.key for lease in leases],
            [lease.epoch for lease in leases],
            [lease.root.key for lease in leases],
            [lease.root.term for lease in leases],
        ]

    @property
    def events(self) -> tuple[list[Any], ...]:
        """The columns of the events."""
        return self._events

    @property
    def states(self) -> tuple[list[int], list[int], list[int]]:
        """Agents, seqs and times of the states among the events."""
        return self._states


def _ending(row: TurnRow) -> tuple[str, str | None, str | None, int | None]:
    """Return the fields that never change after a turn has ended."""
    return row.status, row.reason, row.error, row.ended_at
