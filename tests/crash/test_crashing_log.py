"""The store that dies on demand: what it keeps, what it loses, and that nothing comes out of it afterwards."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from everyword.ids import Epoch, Millis, Seq
from everyword.log.base import Batch, Entry
from everyword.log.memory import MemoryLog
from everyword.testing import CrashingLog
from tests.runtime.facts import rounds
from tests.runtime.kit import AGENT


def batch(seq: int) -> Batch:
    return Batch(AGENT, Epoch(1), Seq(seq), Millis(0), [Entry("chat.cleared", None, b"{}")])


async def crashed(when: Literal["before", "after"]) -> tuple[CrashingLog, MemoryLog]:
    """Return a store that died at its second append, and what it wrapped."""
    store = MemoryLog()
    log = CrashingLog(store, 2, when)
    await log.open()
    await log.activate(AGENT)
    await log.append_one(batch(1))
    hanging = asyncio.create_task(log.append_one(batch(2)))
    await log.crashed.wait()
    await rounds()
    assert not hanging.done()
    hanging.cancel()
    return log, store


@pytest.mark.parametrize(("when", "kept"), [("before", [1]), ("after", [1, 2])])
async def test_the_fatal_batch_is_lost_before_and_kept_after_and_no_caller_is_told(
    when: Literal["before", "after"], kept: list[int]
) -> None:
    log, store = await crashed(when)
    assert [stored.seq for stored in await store.read(AGENT, Seq(0))] == kept
    assert log.appends == 2


@pytest.mark.parametrize(("method", "arguments"), [("read", (AGENT, Seq(0))), ("activate", (AGENT,)), ("due", (0,))])
async def test_nothing_comes_out_of_a_dead_store_although_the_wrapped_one_lives(
    method: str, arguments: tuple[Any, ...]
) -> None:
    log, store = await crashed("after")
    asking = asyncio.create_task(getattr(log, method)(*arguments))
    await rounds()
    assert not asking.done()
    asking.cancel()
    await log.aclose()
    assert await getattr(store, method)(*arguments) is not None, "a dead process closes nothing"


async def test_a_store_that_lives_is_closed_by_its_user() -> None:
    store = MemoryLog()
    log = CrashingLog(store)
    await log.open()
    await log.aclose()
    await store.open()
    assert log.appends == 0
