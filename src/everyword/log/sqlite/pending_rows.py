"""The rows of a transaction: the last word on each of them, for all agents together, written by few statements.

Every statement lets go of the interpreter, and a thread that wants it back from a busy event loop may wait for
milliseconds: with many agents in one commit, that would cost more than all their rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ...ids import Millis
from ...rows import AgentRow, MessageRow, TurnRow
from .row_codec import PermanentEvent, agent_record, message_record, turn_record
from .statements import SQL, columns_of, many_rows

__all__ = ["NEVER", "NOWHERE", "PendingRows", "Span", "insert"]

BLOCKS: Final = (512, 256, 128, 64)
"""So many rows are inserted by one statement, and what is left by another. Python's `executemany` lets go of the
interpreter for each row: that is twice the time, and more while the event loop is busy and does not give it back."""

FEW_BLOCKS: Final = (64, 32, 16, 8, 4, 2, 1)
"""The same for rows of tables that get few of them: a statement is prepared for each of these numbers, and no other."""

NEVER: Final = Millis(-1)
"""How the wake table says of an agent that runs a turn that it is not to be woken."""


class Span(NamedTuple):
    """Where a batch lies in its log and in the file."""

    first: int | None
    first_id: int | None
    last: int | None
    last_id: int | None


NOWHERE: Final = Span(None, None, None, None)


class PendingRows:
    """Rows that wait to be written; what concerns a row that is replaced or removed before then is never written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._agents: dict[int, tuple[Any, ...]] = {}
        self._turns: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._messages: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._wakes: dict[int, Millis | None] = {}

    def put_agent(self, key: int, row: AgentRow) -> None:
        self._agents[key] = agent_record(key, row)

    def put_turn(self, key: int, row: TurnRow, span: Span) -> None:
        """Put a turn. Of `span`, the first replaces what is known of where its chunks begin, if it has one."""
        place = (key, row.turn)
        if place in self._turns:
            self._write_turns()  # what is known of its chunks comes from both rows
        self._turns[place] = (*turn_record(key, row), *span)

    def put_message(self, key: int, row: MessageRow, events: Iterable[PermanentEvent]) -> None:
        """Put a message. `events` are those of the same batch that may have all of it."""
        self._messages[key, row.node] = message_record(key, row, events)

    def put_wake(self, key: int, at: Millis | None) -> None:
        self._wakes[key] = at

    def remove_messages(self, key: int, nodes: Iterable[int]) -> None:
        for node in nodes:
            self._messages.pop((key, node), None)
            self._connection.execute(SQL["remove_message"], (key, node))

    def clear_messages(self, key: int) -> None:
        for place in [place for place in self._messages if place[0] == key]:
            del self._messages[place]
        self._connection.execute(SQL["clear_messages"], (key,))

    def write(self) -> None:
        """Write what waits."""
        self._write_turns()
        self._write("put_message", self._messages.values())
        if len(self._agents) == 1:
            self._connection.execute(SQL["put_agent"], *self._agents.values())
        else:
            self._write("put_agents", self._agents.values())
        self._write("put_wake", [(key, at) for key, at in self._wakes.items() if at is not None])
        for key, at in self._wakes.items():
            if at is None:
                self._connection.execute(SQL["remove_wake"], (key,))
        self.drop()

    def drop(self) -> None:
        """Forget what waits."""
        self._turns.clear()
        self._messages.clear()
        self._agents.clear()
        self._wakes.clear()

    def _write_turns(self) -> None:
        self._write("put_turn", self._turns.values())
        self._turns.clear()

    def _write(self, name: str, records: Iterable[tuple[Any, ...]]) -> None:
        values = [value for record in records for value in record]
        if values:
            insert(self._connection, SQL[name], values, FEW_BLOCKS)


def insert(connection: sqlite3.Connection, statement: str, values: list[Any], blocks: Iterable[int] = BLOCKS) -> None:
    """Run a statement that takes rows, for rows whose columns stand one after the other."""
    columns, start = columns_of(statement), 0
    left = len(values) // columns
    while left:
        count = next((block for block in blocks if block <= left), left)
        end = start + count * columns
        connection.execute(many_rows(statement, count), values[start:end])
        start, left = end, left - count
