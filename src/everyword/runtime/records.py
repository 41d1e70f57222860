"""Reads a conversation from the log alone: what is committed, without a lease."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from ..core.record import ConversationRecord
from ..errors import LogCorrupt
from ..events import decode_event
from ..ids import AgentId, Seq
from ..log.base import Stored

__all__ = ["ReadsLogs", "read_record"]

PAGE: Final = 1000
PAGE_BYTES: Final = 4 * 1024 * 1024


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
    record, cursor = ConversationRecord(), Seq(0)
    while page := await store.read(agent, cursor, PAGE, size=PAGE_BYTES):
        for stored in page:
            try:
                record.apply(decode_event(stored.body), stored.at)
            except (msgspec.DecodeError, AssertionError, KeyError, ValueError) as exc:
                raise LogCorrupt(f"unable to read {agent!r}; event {stored.seq} cannot be used ({exc})") from exc
        cursor = page[-1].seq
    return record
