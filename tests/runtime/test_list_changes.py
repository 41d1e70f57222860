"""What watchers of lists are told, by the moment of the commit."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from everyword.errors import LogUnavailable
from everyword.ids import AgentId, Epoch, Millis, Seq
from everyword.log.base import Batch
from everyword.log.lists import ListedConversation
from everyword.log.memory import MemoryLog
from everyword.log.receipt import Receipt, settle
from everyword.rows import CONVERSATION, ConversationSummary, KeptRow
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


async def test_watchers_share_one_reading_of_each_change() -> None:
    changes, read = ListChanges(MemoryLog(), SystemClock()), list[AgentId]()
    may_fail = [True]

    async def reading(agent: AgentId) -> ListedConversation | None:
        read.append(agent)
        if may_fail.pop() if may_fail else False:
            raise LogUnavailable("unable to read")
        return ListedConversation(agent, ConversationSummary(Millis(len(read)), Millis(len(read))))

    async def times(count: int) -> set[int]:
        every = [changes.read_once(AgentId("chat/a"), reading) for _ in range(count)]
        return {found.summary.created_at for found in await asyncio.gather(*every) if found is not None}

    with changes.watching():
        changes.note(AgentId("chat/a"))
        with pytest.raises(LogUnavailable):
            await times(1)
        assert await times(3) == {2}
        first = asyncio.create_task(times(1))
        changes.note(AgentId("chat/a"))
        assert await times(3) == await first == {3}
    with changes.watching():
        assert await times(2) == {4}
