"""An agent's log, written under a name that has none yet: what `fork` and `import` have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from ..core.evolve import evolve
from ..core.project import project
from ..core.state import State
from ..core.wanted import wanted
from ..errors import BadInput, UsageError
from ..events import Event, encode_event, kind_of, turn_of
from ..ids import AgentId, Epoch, Millis, Seq
from ..log.base import UNCHANGED, Batch, Entry, Stored
from ..rows import Row
from ..runtime.rebuild import AdminStore
from .log_reader import LogReader
from .store_access import leased

__all__ = ["Copied", "fold_events", "fresh", "read_log", "without_detail", "write_agent"]


AT_ONCE = 256
"""Batches that are handed to the store before the first is awaited: it commits waiting batches together."""


class Copied(NamedTuple):
    """An event to be written to another log: its time, the decoded event, and its unchanged bytes."""

    at: Millis
    event: Event
    body: bytes


def fresh(events: Sequence[Event], now: Millis) -> list[Copied]:
    """Return new events as they are written, all with the time `now`."""
    return [Copied(now, event, encode_event(event)) for event in events]


def fold_events(events: Sequence[Copied], what: str) -> State:
    """Return the state that the events imply.

    Raises:
        BadInput: the events are not a valid log: one of them does not follow from the others.
    """
    state = State()
    for number, (at, event, _) in enumerate(events, 1):
        try:
            evolve(state, event, at)
        except (AssertionError, KeyError, ValueError) as exc:
            raise BadInput(
                f"unable to import {what}; its event {number} does not follow from the events before it ({exc})"
            ) from exc
    return state


def without_detail(body: bytes) -> bytes:
    """Return a stored event without its `detail`, which may contain the text of an exception."""
    if b'"detail"' not in body:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode(fields) if fields.pop("detail", None) is not None else body


async def read_log(store: LogReader | AdminStore, agent: AgentId) -> list[Stored]:
    """Return the whole log of an agent."""
    found: list[Stored] = []
    while page := await store.read(agent, found[-1].seq if found else Seq(0), 1000):
        found += page
    return found


async def write_agent(
    store: AdminStore, agent: AgentId, events: Sequence[Copied], doing: str = "write", database: bytes | None = None
) -> int:
    """Write a log and the tables derived from it; return the number of events that were missing.

    `doing` names the task in errors: `import`. `database` is the agent's own SQL database. It is written before the
    first event, so an agent that has events has its database, too, and may have changed it since.

    Events are numbered again from 1: a log has gaps where retention was, and nothing refers to a seq. If the agent has
    a log that these events begin with, the rest is added: a copy that was cut short is finished by making it again.

    Raises:
        UsageError: the agent has another log.
    """
    there = await read_log(store, agent)
    had = len(there)
    # An exported file may lack details; it still matches the log that it was made from.
    ours = [(each.at, without_detail(each.body)) for each in there]
    is_same = ours == [(at, without_detail(body)) for at, _, body in events[:had]]
    if had > len(events) or not is_same:
        raise UsageError(
            f"unable to {doing} {agent!r}; another agent has this name. Choose another name: --as kind/name"
        )
    if had == len(events):
        return 0
    async with leased(store, agent, doing) as activation:
        if activation.head != had:
            raise UsageError(
                f"unable to complete {agent!r}; retention has deleted some of its events. "
                "Choose another name: --as kind/name"
            )
        if database is not None and not had:
            assert store.databases is not None
            await store.databases.restore(agent, database)
        state = fold_events(events[:had], agent)
        waiting: list[Batch] = []
        for batch in _batches(state, agent, activation.epoch, events, had):
            waiting.append(batch)
            if len(waiting) == AT_ONCE:
                await asyncio.gather(*store.append(waiting))
                waiting.clear()
        await asyncio.gather(*store.append(waiting))
    return len(events) - had


def _batches(state: State, agent: AgentId, epoch: Epoch, events: Sequence[Copied], had: int) -> Iterator[Batch]:
    """Yield the missing events in batches of one time each; the last batch sets the agent's wake-up time."""
    place = had
    for at, group in groupby(events[had:], key=lambda copied: copied.at):
        entries: list[Entry] = []
        rows: list[Row] = []
        for _, event, body in group:
            evolve(state, event, at)
            rows += project(state, event)
            entries.append(Entry(kind_of(event), turn_of(event), body))
        is_last = place + len(entries) == len(events)
        wake = wanted(state, at).wake if is_last else UNCHANGED
        yield Batch(agent, epoch, Seq(place + 1), at, entries, rows, wake)
        place += len(entries)
