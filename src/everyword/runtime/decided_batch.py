"""Commands into one batch: decide each, apply its events to the state, and collect what is to be committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, cast

import msgspec

from ..core.commands import BeginAttempt, EmitChunks
from ..core.decide import decide
from ..core.evolve import evolve
from ..core.project import project, unlisted_rows
from ..core.search_rows import search_rows
from ..core.state import Rules, State
from ..core.wanted import Wanted, wanted
from ..errors import Rejected
from ..events import AttemptStarted, Chunk, Event, encode_event, kind_of, turn_of
from ..ids import AgentId, Millis, Seq, TurnId
from ..log.base import Entry
from ..rows import AgentRow, KeptRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow
from .mailbox import Envelope
from .random_ids import random_request_id
from .tail import Committed

__all__ = ["DecidedBatch", "decide_batch"]

log = logging.getLogger("everyword.runtime")


class DecidedBatch(msgspec.Struct, eq=False):
    """Commands that were decided together: what to commit, and the replies to give once it is committed."""

    envelopes: list[Envelope]
    at: Millis
    committed: list[Committed] = []
    """The events, as readers get them."""
    entries: list[Entry] = []
    """The events, as the store gets them."""
    rows: dict[object, Row] = {}
    """The rows that the events change, by their key: the last word on each."""
    work: Wanted | None = None
    """What the new state calls for. None if the batch has nothing but chunks: then it calls for what it did before."""
    begun: TurnId | None = None
    """The turn whose first attempt begins with this batch."""
    replies: list[tuple[asyncio.Future[Any], list[Event] | Exception]] = []


def decide_batch(
    agent: AgentId,
    state: State,
    head: Seq,
    envelopes: list[Envelope],
    at: Millis,
    rules: Rules,
    begins: Callable[[State, Wanted], TurnId | None],
) -> DecidedBatch:
    """Decide the commands in order and apply their events to `state`; a command that is refused changes nothing.

    `begins` names the turn whose first attempt may begin in the same batch: one commit less before its first word.
    """
    batch, before = DecidedBatch(envelopes, at), state.tree.revision
    has_only_chunks = True
    for envelope in envelopes:
        try:
            events = decide(state, envelope.command, at, rules)
        except Exception as exc:
            if not isinstance(exc, Rejected):
                log.error("%r could not decide %s", agent, type(envelope.command).__name__, exc_info=exc)
            if envelope.reply is not None:
                batch.replies.append((envelope.reply, exc))
            continue
        _apply(batch, state, head, events)
        has_only_chunks = has_only_chunks and type(envelope.command) is EmitChunks
        if envelope.reply is not None:
            batch.replies.append((envelope.reply, events))
    is_shown_at_once = state.tree.revision != before  # an approval request among the chunks changes the message
    if batch.entries and (not has_only_chunks or is_shown_at_once):
        batch.work = wanted(state, at)
        if (turn := begins(state, batch.work)) is not None:
            _begin(batch, state, head, turn, rules)
    if batch.rows and state.unlisted is not None:
        for row in unlisted_rows(state):
            _collect(batch.rows, row)
    if batch.rows and (rules.is_searchable or state.is_searchable):
        for row in search_rows(state, list(batch.rows.values()), rules.is_searchable):
            _collect(batch.rows, row)
    return batch


def _begin(batch: DecidedBatch, state: State, head: Seq, turn: TurnId, rules: Rules) -> None:
    events = decide(state, BeginAttempt(turn, calls=random_request_id()), batch.at, rules)
    _apply(batch, state, head, events)
    if type(events[-1]) is AttemptStarted:
        batch.begun = turn  # what `work` calls for is what runs now
    else:
        batch.work = wanted(state, batch.at)


def _apply(batch: DecidedBatch, state: State, head: Seq, events: list[Event]) -> None:
    at, entries, committed, tree = batch.at, batch.entries, batch.committed, state.tree
    first = head + len(entries) + 1
    for seq, event in zip(cast(Iterable[Seq], count(first)), events):  # noqa: B905 - `count` does not end
        before = tree.revision
        evolve(state, event, at)
        body = encode_event(event)
        committed.append(Committed(seq, at, event, len(body)))
        if type(event) is Chunk:  # nearly all of them
            entries.append(Entry("chunk", event.turn, body))
            if tree.revision == before:
                continue  # it changes no row; asking `project` is 2 % of the CPU time of a chunk
        else:
            entries.append(Entry(kind_of(event), turn_of(event), body, event))
        for row in project(state, event):
            _collect(batch.rows, row)


def _collect(rows: dict[object, Row], row: Row) -> None:
    """Collect a batch's rows: a whole row replaces the one before, a removal takes out what it removes."""
    match row:
        case AgentRow():
            rows.pop("agent", None)
            rows["agent"] = row
        case TurnRow():
            rows["turn", row.turn] = row
        case MessageRow():
            rows["message", row.node] = row
        case KeptRow():
            rows["kept", row.kind, row.key] = row
        case RowsRemoved():
            for node in row.nodes:
                rows.pop(("message", node), None)
            rows["removed", tuple(row.nodes)] = row
        case RowsCleared():
            for key in [key for key in rows if isinstance(key, tuple) and key[0] in ("message", "removed")]:
                del rows[key]
            rows["cleared"] = row
