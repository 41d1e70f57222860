"""Rows as the tables have them: the columns are the fields of `rows`, in their order, behind the agent's key."""

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
"""Bytes of a body that has no room in a page of the table beside others: it would lie apart from its row anyway."""

Record = tuple[Any, ...]
"""One row as `sqlite3` takes and gives it."""


class PermanentEvent:
    """An event of a batch that stays as long as its agent, where large bodies may lie.

    They are looked for in its order, and no more once one is missing: it is looked through once, for however many.
    """

    __slots__ = ("_seen", "arrival", "body")

    def __init__(self, arrival: int, body: bytes) -> None:
        self.arrival, self.body = arrival, body
        self._seen = 0

    def find(self, body: bytes) -> int:
        """Return where the body begins, below 0 if it is not to be found behind the one before."""
        start = self.body.find(body, self._seen)
        self._seen = start + len(body) if start >= 0 else len(self.body)
        return start


def agent_record(key: int, row: AgentRow) -> Record:
    return key, row.generation, row.leaf, row.last_turn, row.last_node


def to_agent_row(record: Record) -> AgentRow | None:
    """Make the row of its columns; they are NULL until one is written."""
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
    """Make the rows that can be made; one that cannot is reported and left out, so that the agent still opens."""
    rows: list[TurnRow] = []
    for record in records:
        try:
            rows.append(turn_row(record))
        except (TypeError, ValueError) as exc:
            log.error("unable to read the row of turn %r; it is left out: %s", record[0], exc)
    return rows


def message_record(key: int, row: MessageRow, events: Iterable[PermanentEvent] = ()) -> Record:
    """Return the row's columns. A body of some size that one of these events has as well is not stored twice.

    Then the row says where it lies: the arrival of the event, and where in its bytes.
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
