"""Compares the log of an agent in two stores, event by event."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..ids import AgentId, Seq
from ..log.base import PRUNED, Stored

__all__ = ["Comparison", "EventReader", "compare_logs", "read_pages"]

PAGE_EVENTS, PAGE_BYTES = 1000, 4 * 1024 * 1024


class EventReader(Protocol):
    """What a comparison needs of a store."""

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]: ...


@dataclass(slots=True)
class Comparison:
    """How the copy of a log differs from the log.

    It is the same log if it has gained events since, and if retention has deleted events in one of them.
    """

    agent: AgentId
    events: int = 0
    """Events of the log."""
    later: int = 0
    """Events of the copy behind the end of the log."""
    pruned: int = 0
    """Events that only one of them has, of a kind that retention deletes."""
    differences: int = 0
    why: str = ""
    """The first difference, in few words."""
    sha256: str = ""
    """Digest of the log; the copy has the same one, unless there are differences or pruned events."""

    @property
    def is_same(self) -> bool:
        return not self.differences

    def differ(self, why: str) -> None:
        self.differences += 1
        self.why = self.why or why

    def lack(self, event: Stored, why: str) -> None:
        """Count an event that only one of them has."""
        if event.kind in PRUNED:
            self.pruned += 1
        else:
            self.differ(f"event {event.seq} {why}")


async def read_pages(store: EventReader, agent: AgentId) -> AsyncIterator[Sequence[Stored]]:
    """Yield the log of an agent in parts of a limited size."""
    cursor = Seq(0)
    while page := await store.read(agent, cursor, PAGE_EVENTS, size=PAGE_BYTES):
        yield page
        cursor = page[-1].seq


async def compare_logs(log: EventReader, copy: EventReader, agent: AgentId) -> Comparison:
    """Compare an agent's log with its copy in another store."""
    found, ours, theirs = Comparison(agent), hashlib.sha256(), hashlib.sha256()
    events, copies = _events(log, agent), _events(copy, agent)
    event, copied = await anext(events, None), await anext(copies, None)
    while event is not None:
        if copied is not None and copied.seq < event.seq:
            found.lack(copied, "is not in the source")
            theirs.update(_digested(copied))
            copied = await anext(copies, None)
            continue
        if copied is None:
            found.differ(f"event {event.seq} is missing, and all behind it")
        elif event.seq < copied.seq:
            found.lack(event, "is missing")
        else:
            if copied != event:
                found.differ(f"event {event.seq} is another one")
            theirs.update(_digested(copied))
            copied = await anext(copies, None)
        found.events += 1
        ours.update(_digested(event))
        event = await anext(events, None)
    while copied is not None:
        found.later += 1
        copied = await anext(copies, None)
    found.sha256 = ours.hexdigest()
    if found.sha256 != theirs.hexdigest() and not found.pruned and not found.differences:
        found.differ("its digest is another one")
    return found


async def _events(store: EventReader, agent: AgentId) -> AsyncIterator[Stored]:
    async for page in read_pages(store, agent):
        for event in page:
            yield event


def _digested(event: Stored) -> bytes:
    head = f"{event.seq} {event.at} {event.kind} {event.turn} {len(event.body)}\n"
    return head.encode() + event.body
