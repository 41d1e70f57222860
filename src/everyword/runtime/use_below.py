"""The use of sub-agents: a conversation that is kept for some time is kept while agents below it are used."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from ..core.conversations import restore_conversation
from ..core.jobs import restore_job
from ..ids import AgentId, Millis, children_prefix
from ..log.base import LogStore
from ..rows import CONVERSATION, KeptRow

__all__ = ["kept_until"]

JOB_TIME: Final = 60_000
"""Milliseconds that a job which is due is given to run."""


async def kept_until(store: LogStore, agent: AgentId, keep_for: int, now: Millis) -> Millis:
    """Return the time until which what happens below an agent keeps its conversation; 0 if nothing happens there.

    Raises:
        LogError: the store cannot be read.
    """
    until = Millis(0)
    for below in await store.agents(children_prefix(agent)):
        for row in await store.kept(below):
            with suppress(msgspec.DecodeError):  # a damaged row keeps nothing
                until = max(until, _row_keeps_until(row, keep_for, now))
    return until


def _row_keeps_until(row: KeptRow, keep_for: int, now: Millis) -> Millis:
    if row.kind == CONVERSATION:
        known = restore_conversation(row)
        return Millis((now if known.status == "running" else known.updated_at) + keep_for)
    jobs = restore_job([row]).values() if row.kind == "job" else ()
    return max((Millis(max(job.due, now) + JOB_TIME) for job in jobs if job.is_last), default=Millis(0))
