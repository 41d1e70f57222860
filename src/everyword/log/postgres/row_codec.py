"""Convert rows to records of the database's types and back: the agent's key, then the fields of `rows` in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ...events import TurnKind
from ...ids import Seq
from ...rows import AgentRow, KeptRow, MessageRow, TurnRow
from ..base import Stored
from ..chunk_packing import unpack

__all__ = [
    "agent_row",
    "kept_rows",
    "message_record",
    "message_rows",
    "stored_events",
    "turn_record",
    "turn_rows",
]

_TURN_FIELDS: Final = len(TurnRow.__struct_fields__)

Record = Sequence[Any]


def turn_record(key: int, row: TurnRow, part: int, first_seq: int) -> tuple[Any, ...]:
    return (
        *(key, row.turn, row.request, row.kind.value, row.generation, row.node, row.message_id, row.status),
        *(row.accepted, row.accepted_at, row.attempt, row.chunks, row.reason, row.error, row.detail),
        *(row.finish_reason, row.usage, row.ended_at, row.hook_due, part, first_seq),
    )


def turn_rows(records: Iterable[Record], *, skip: int = 0) -> list[TurnRow]:
    """Return the rows of records that have `skip` other columns before those of a turn, and any number behind."""
    rows: list[TurnRow] = []
    for record in records:
        fields = list(record)[skip : skip + _TURN_FIELDS]
        fields[2] = TurnKind(fields[2])
        rows.append(TurnRow(*fields))
    return rows


def message_record(key: int, row: MessageRow) -> tuple[Any, ...]:
    return key, row.node, row.parent, row.id, row.role, row.body, row.draft, row.at


def message_rows(records: Iterable[Record]) -> list[MessageRow]:
    return [MessageRow(*tuple(record)[1:]) for record in records]


def kept_rows(records: Iterable[Record]) -> list[KeptRow]:
    return [KeptRow(*tuple(record)[1:]) for record in records]


def agent_row(generation: int | None, leaf: Any, last_turn: Any, last_node: Any) -> AgentRow | None:
    """Return the row; None while none was written."""
    return None if generation is None else AgentRow(generation, leaf, last_turn, last_node)  # type: ignore[arg-type]


def stored_events(records: Iterable[Record]) -> list[Stored]:
    """Return the events of records (seq, at, kind, turn, more, body), packed ones unpacked."""
    events: list[Stored] = []
    for seq, at, kind, turn, more, body in records:
        if not more:
            events.append(Stored(seq, at, kind, turn, body))
            continue
        first = seq - more
        events += [Stored(Seq(first + n), at, kind, turn, each) for n, each in enumerate(unpack(body, more))]
    return events
