"""What watchers of lists are told, by the moment of the commit."""

from __future__ import annotations

import asyncio

import msgspec

from everyword.errors import LogUnavailable
from everyword.ids import AgentId, Epoch, Millis, Seq
from everyword.log.base import Batch
from everyword.log.memory import MemoryLog
from everyword.log.receipt import Receipt, settle
from everyword.rows import CONVERSATION, KeptRow
from everyword.runtime.clock import SystemClock
from everyword.runtime.list_changes import ListChanges

BATCH = Batch(AgentId("chat/a"), Epoch(1), Seq(1), Millis(1), [], [KeptRow(CONVERSATION, "", b"{}")])


async def test_a_watcher_that_begins_before_the_commit_is_told_of_it() -> None:
    changes, written = ListChanges(MemoryLog(), SystemClock()), Receipt()
    changes.after(None)(BATCH, written)
    with changes.watching() as watcher:
        settle([written])
        async with asyncio.timeout(60):
            assert await watcher.next() == ["chat/a"]


async def test_a_watcher_is_told_of_nothing_that_was_not_committed_or_was_before() -> None:
    changes, before = ListChanges(MemoryLog(), SystemClock()), Receipt(is_done=True)
    failed, written = Receipt(error=LogUnavailable("unable to write")), Receipt()
    changes.after(None)(BATCH, before)
    with changes.watching() as watcher:
        changes.after(None)(msgspec.structs.replace(BATCH, agent=AgentId("chat/b")), failed)
        changes.after(None)(msgspec.structs.replace(BATCH, agent=AgentId("chat/c/sub/x/y")), written)
        settle([failed, written])
        async with asyncio.timeout(60):
            assert await watcher.next() == ["chat/c"]
