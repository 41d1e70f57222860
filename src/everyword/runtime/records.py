"""Reads a conversation from the log alone: what is committed, without a lease."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from ..core.record import ConversationRecord
from ..errors import LogCorrupt
from ..events import ShareCreated, decode_event
from ..ids import AgentId, Seq
from ..log.base import Stored

__all__ = ["ReadsLogs", "read_frozen_record", "read_head", "read_record", "read_record_with_head"]

PAGE: Final = 256
PAGE_BYTES: Final = 1024 * 1024
"""A page is decoded in one go, so it is small: other agents wait meanwhile."""


class ReadsLogs(Protocol):
    """What has logs to read: a store, or a file that a command reads."""

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        """Return the events after a seq, as `LogStore.read`."""
        ...


async def read_record(store: ReadsLogs, agent: AgentId) -> ConversationRecord:
    """Return the conversation of an agent; an empty one for an unknown agent.

    Raises:
        LogCorrupt: an event cannot be read, or does not fit.
        LogUnavailable: the store cannot be read.
    """
    return (await read_record_with_head(store, agent))[0]


async def read_record_with_head(store: ReadsLogs, agent: AgentId) -> tuple[ConversationRecord, Seq]:
    """Return the conversation of an agent, and the seq of the last event in it; raises as `read_record`."""
    record, head = ConversationRecord(), Seq(0)
    async for stored in _events(store, agent):
        _apply(record, agent, stored)
        head = stored.seq
    return record, head


async def read_frozen_record(store: ReadsLogs, agent: AgentId, digest: str) -> tuple[ConversationRecord, Seq] | None:
    """Return the conversation as it was when a shared link was created, and the seq of that event; None if it was not.

    Chunks are left out, because retention deletes them: read its `ended_messages`. Raises as `read_record`.
    """
    record = ConversationRecord()
    async for stored in _events(store, agent):
        if stored.kind == "chunk":
            continue
        if stored.kind == "share.created":
            event = decode_event(stored.body)
            if isinstance(event, ShareCreated) and event.digest == digest:
                return record, stored.seq
        _apply(record, agent, stored)
    return None


async def read_head(store: ReadsLogs, agent: AgentId, after: Seq) -> Seq:
    """Return the seq of the last event of a log that has one at `after`."""
    async for stored in _events(store, agent, after):
        after = stored.seq
    return after


def _apply(record: ConversationRecord, agent: AgentId, stored: Stored) -> None:
    """Apply a stored event; raises as `read_record`."""
    try:
        record.apply(decode_event(stored.body), stored.at)
    except (msgspec.DecodeError, AssertionError, KeyError, ValueError) as exc:
        raise LogCorrupt(f"unable to read {agent!r}; event {stored.seq} cannot be used ({exc})") from exc


async def _events(store: ReadsLogs, agent: AgentId, cursor: Seq = Seq(0)) -> AsyncIterator[Stored]:
    while page := await store.read(agent, cursor, PAGE, size=PAGE_BYTES):
        for stored in page:
            yield stored
        cursor = page[-1].seq
