"""Convert rows to records of the tables and back: the agent's key, then the fields of `rows` in their order."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from ...events import TurnKind
from ...rows import AgentRow, MessageRow, TurnRow

__all__ = [
    "PermanentEvent",
    "Record",
    "agent_record",
    "message_record",
    "message_row",
    "to_agent_row",
    "turn_record",
    "turn_row",
]
__all__ += ["turn_rows"]

log = logging.getLogger(__name__)

LARGE_BODY = 1000
"""A body with more bytes does not fit into a page of the table beside others: SQLite stores it in overflow pages."""

Record = tuple[Any, ...]
"""One row as `sqlite3` takes and returns it."""


class PermanentEvent:
    """An event of a batch that stays as long as its agent. A message may refer to a large body in it.

    Bodies are searched in the order of the event, and no longer after one is missing: so the event is searched once,
    for any number of bodies.
    """

    __slots__ = ("_seen", "arrival", "body")

    def __init__(self, arrival: int, body: bytes) -> None:
        self.arrival, self.body = arrival, body
        self._seen = 0

    def find(self, body: bytes) -> int:
        """Return where the body starts, behind the previous one; -1 if it is not found."""
        start = self.body.find(body, self._seen)
        self._seen = start + len(body) if start >= 0 else len(self.body)
        return start


def agent_record(key: int, row: AgentRow) -> Record:
    return key, row.generation, row.leaf, row.last_turn, row.last_node


def to_agent_row(record: Record) -> AgentRow | None:
    """Return the row, or None while none was written: its columns are NULL then."""
    return None if record[0] is None else AgentRow(*record)


def turn_record(key: int, row: TurnRow) -> Record:
    return (
        *(key, row.turn, row.request, row.kind.value, row.generation, row.node, row.message_id, row.status),
        *(row.accepted, row.accepted_at, row.attempt, row.chunks, row.reason, row.error, row.detail),
        *(row.finish_reason, row.usage, row.ended_at, row.hook_due),
    )


def turn_row(record: Record) -> TurnRow:
    fields = list(record)
    fields[2], fields[-1] = TurnKind(fields[2]), bool(fields[-1])
    return TurnRow(*fields)


def turn_rows(records: Iterable[Record]) -> list[TurnRow]:
    """Return the rows that can be decoded. A damaged one is logged and left out, so that the agent still loads."""
    rows: list[TurnRow] = []
    for record in records:
        try:
            rows.append(turn_row(record))
        except (TypeError, ValueError) as exc:
            log.error("unable to read the row of turn %r; it is left out: %s", record[0], exc)
    return rows


def message_record(key: int, row: MessageRow, events: Iterable[PermanentEvent] = ()) -> Record:
    """Return the record of the row. A large body that is also in one of these events is not stored twice.

    The record then has the arrival of the event, and the start and the size of the body in it.
    """
    body = row.body
    if body is not None and len(body) > LARGE_BODY:
        for event in events:
            if (start := event.find(body)) >= 0:
                place = (event.arrival, start, len(body))
                return key, row.node, row.parent, row.id, row.role, None, row.draft, row.at, *place
    return key, row.node, row.parent, row.id, row.role, body, row.draft, row.at, None, None, None


def message_row(record: Record) -> MessageRow:
    return MessageRow(*record)
