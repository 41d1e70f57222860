"""Projections from nothing but the log (I-9): what `everyword rebuild` does to every agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

import msgspec

from ..core.evolve import evolve
from ..core.project import project
from ..core.search_rows import search_rows
from ..core.state import State
from ..core.wanted import wanted
from ..errors import LogCorrupt
from ..events import decode_event
from ..ids import AgentId, Millis, NodeId, Seq, TurnId, root_id
from ..log.base import LogAdmin, LogStore
from ..log.lists import ApprovalQuery
from ..rows import (
    LISTED,
    SEARCHABLE,
    SETTLED,
    AgentRow,
    KeptRow,
    MessageRow,
    Row,
    RowsCleared,
    RowsRemoved,
    TurnRow,
    encode_listed,
    put_listed,
)

__all__ = ["AdminStore", "Projections", "Rebuilt", "fold_log", "rebuild", "stored_rows"]

PAGE = 1000


class AdminStore(LogStore, LogAdmin, Protocol):
    """A store that tools can work on."""


@dataclass(slots=True)
class Projections:
    """One agent's rows, as a store keeps them."""

    agent: AgentRow | None = None
    turns: dict[TurnId, TurnRow] = field(default_factory=dict)
    messages: dict[NodeId, MessageRow] = field(default_factory=dict)
    kept: dict[tuple[str, str], KeptRow] = field(default_factory=dict)
    listed: dict[tuple[str, str], KeptRow] = field(default_factory=dict)
    """Rows that only lists show."""

    def put(self, rows: Iterable[Row]) -> None:
        """Apply rows in the order in which they were projected."""
        for row in rows:
            match row:
                case AgentRow():
                    self.agent = row
                case TurnRow():
                    self.turns[row.turn] = row
                case MessageRow():
                    self.messages[row.node] = row
                case KeptRow():
                    if row.kind in LISTED:
                        put_listed(self.listed, row)
                    elif row.body is not None:
                        self.kept[row.kind, row.key] = row
                    else:
                        self.kept.pop((row.kind, row.key), None)
                case RowsRemoved():
                    for node in row.nodes:
                        self.messages.pop(node, None)
                case RowsCleared():
                    self.messages.clear()
                case _:
                    assert_never(row)

    def rows(self) -> list[Row]:
        """Return every row, turns and messages by their ordinals."""
        turns = [self.turns[turn] for turn in sorted(self.turns)]
        messages = [self.messages[node] for node in sorted(self.messages)]
        kept = [self.kept[key] for key in sorted(self.kept)] + [self.listed[key] for key in sorted(self.listed)]
        return [*turns, *messages, *([self.agent] if self.agent is not None else []), *kept]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What rebuilding an agent came to. `changes` has a phrase per kind of row that was not as the log says."""

    agent: AgentId
    events: int
    changes: Sequence[str]


async def rebuild(store: AdminStore, agent: AgentId, now: Millis, *, is_searchable: bool | None = None) -> Rebuilt:
    """Fold the agent's log and put the rows that it implies in the place of those that are there.

    `is_searchable` says whether its texts are indexed for searches; None for as it was.

    Raises:
        LogCorrupt: an event cannot be read or does not fit; the agent's rows are left as they were.
    """
    state, rows, events = await fold_log(store, agent, is_searchable=is_searchable)
    stored = await stored_rows(store, agent)
    await store.replace_rows(agent, rows.rows(), wanted(state, now).wake)
    return Rebuilt(agent, events, _changes(stored, rows))


async def stored_rows(store: AdminStore, agent: AgentId) -> Projections:
    """Return the rows that the store has."""
    row, messages = await store.conversation(agent)
    stored = Projections(row)
    stored.put(await store.turns(agent))
    stored.put(messages)
    stored.put(await store.kept(agent))
    if store.lists is not None:
        stored.put(await store.lists.texts(agent))
    query: ApprovalQuery | None = ApprovalQuery(root=root_id(agent), is_settled=True, limit=PAGE)
    while store.lists is not None and query is not None:
        page = await store.lists.approvals(query)
        stored.put(KeptRow(SETTLED, each.key, encode_listed(each.record)) for each in page if each.agent == agent)
        query = msgspec.structs.replace(query, after=page[-1].place) if len(page) == PAGE else None
    return stored


async def fold_log(
    store: LogStore, agent: AgentId, *, is_searchable: bool | None = None
) -> tuple[State, Projections, int]:
    """Return the state and the rows that the agent's log implies, and how many events it has.

    The log does not say whether the agent's texts are indexed for searches; None for as the store has it.
    """
    state, rows, events = State(), Projections(), 0
    cursor = Seq(0)
    while page := await store.read(agent, cursor, PAGE):
        for stored in page:
            try:
                event = decode_event(stored.body)
                evolve(state, event, stored.at)
                rows.put(project(state, event))
            except (msgspec.DecodeError, AssertionError, KeyError, ValueError) as exc:
                raise LogCorrupt(f"unable to rebuild {agent!r}; event {stored.seq} cannot be used ({exc})") from exc
        cursor = page[-1].seq
        events += len(page)
    if is_searchable is None:
        is_searchable = any(row.kind == SEARCHABLE for row in await store.kept(agent))
    rows.put(search_rows(state, [], is_searchable and root_id(agent) == agent))
    return state, rows, events


def _changes(stored: Projections, rebuilt: Projections) -> list[str]:
    changes = [
        *_phrases("turn", stored.turns, rebuilt.turns),
        *_phrases("message", stored.messages, rebuilt.messages),
    ]
    if (stored.kept, stored.listed) != (rebuilt.kept, rebuilt.listed):
        changes.append("what else it keeps")
    if stored.agent != rebuilt.agent:
        changes.append("the agent's own row")
    return changes


def _phrases(noun: str, stored: dict[TurnId, TurnRow] | dict[NodeId, MessageRow], rebuilt: object) -> list[str]:
    assert isinstance(rebuilt, dict)
    counts = {
        "missing": sum(1 for key in rebuilt if key not in stored),
        "changed": sum(1 for key in rebuilt if key in stored and stored[key] != rebuilt[key]),
        "too many": sum(1 for key in stored if key not in rebuilt),
    }
    return [f"{count} {noun}{'s' if count > 1 else ''} {what}" for what, count in counts.items() if count]
