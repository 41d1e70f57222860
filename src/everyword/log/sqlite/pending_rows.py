"""The projected rows of the open transaction, which are written together at its end: the last version of each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ...rows import AgentRow, MessageRow, TurnRow
from .bulk_insert import FEW, insert_rows
from .row_codec import PermanentEvent, agent_record, message_record, turn_record
from .statements import SQL

__all__ = ["NO_SPAN", "PendingRows", "Span"]


class Span(NamedTuple):
    """Where a batch lies, first and last event: by seq in its log, by arrival in the file."""

    first: int | None
    first_id: int | None
    last: int | None
    last_id: int | None


NO_SPAN: Final = Span(None, None, None, None)


class PendingRows:
    """Rows of all agents that wait to be written. A row that is replaced or removed before then is never written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._agents: dict[int, tuple[Any, ...]] = {}
        self._turns: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._messages: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._wakes: dict[int, int | None] = {}

    def put_agent(self, key: int, row: AgentRow) -> None:
        self._agents[key] = agent_record(key, row)

    def put_turn(self, key: int, row: TurnRow, span: Span) -> None:
        """Put a turn. The first event of `span`, if it has one, replaces the stored beginning of the turn's chunks."""
        place = (key, row.turn)
        if place in self._turns:
            self._write_turns()  # the file merges both rows: each may say where the turn's chunks are
        self._turns[place] = (*turn_record(key, row), *span)

    def put_message(self, key: int, row: MessageRow, events: Iterable[PermanentEvent]) -> None:
        """Put a message. `events` are those events of the same batch that may contain its body."""
        self._messages[key, row.node] = message_record(key, row, events)

    def put_wake(self, key: int, at: int | None) -> None:
        """Put the agent's entry of the wake table; None removes it."""
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
        """Write the rows that wait. A batch of chunks has none, so nothing is built for an empty table."""
        if self._turns:
            self._write_turns()
        if self._messages:
            self._insert("put_message", self._messages.values())
            self._messages.clear()
        if self._agents:
            self._write_agents()
        if self._wakes:
            self._write_wakes()

    def rollback(self) -> None:
        """Forget the rows that wait."""
        self._turns.clear()
        self._messages.clear()
        self._agents.clear()
        self._wakes.clear()

    def _write_turns(self) -> None:
        self._insert("put_turn", self._turns.values())
        self._turns.clear()

    def _write_agents(self) -> None:
        if len(self._agents) == 1:
            self._connection.execute(SQL["put_agent"], *self._agents.values())
        else:
            self._insert("put_agents", self._agents.values())
        self._agents.clear()

    def _write_wakes(self) -> None:
        wakes = [(key, at) for key, at in self._wakes.items() if at is not None]
        if wakes:
            self._insert("put_wake", wakes)
        for key, at in self._wakes.items():
            if at is None:
                self._connection.execute(SQL["remove_wake"], (key,))
        self._wakes.clear()

    def _insert(self, name: str, records: Iterable[tuple[Any, ...]]) -> None:
        insert_rows(self._connection, SQL[name], [value for record in records for value in record], FEW)
