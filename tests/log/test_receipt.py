"""Receipts: callbacks and waiters get the result of a commit at once, exactly once, and in their own context."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from contextvars import Context, ContextVar

import pytest

from everyword.log.receipt import Receipt, receipt_for, settle

PLACE: ContextVar[str] = ContextVar("place", default="nowhere")


class NoRoom(Exception):
    """Something that a store may say."""


async def turn_of_the_loop() -> None:
    await asyncio.sleep(0)


async def test_a_caller_that_awaits_a_receipt_gets_its_result_however_late() -> None:
    receipt = Receipt()
    waiting = asyncio.ensure_future(receipt)
    await turn_of_the_loop()
    assert not waiting.done()
    receipt.result = "written"
    settle([receipt])
    assert await waiting == "written"
    assert await receipt == "written"


async def test_a_caller_that_awaits_a_failed_receipt_gets_the_error() -> None:
    receipt = Receipt()
    waiting = asyncio.ensure_future(receipt)
    await turn_of_the_loop()
    receipt.error = ValueError("no room")
    settle([receipt])
    for each in (waiting, receipt):
        with pytest.raises(ValueError, match="no room"):
            await each


async def test_callbacks_run_at_once_in_order_and_in_their_own_context() -> None:
    told: list[tuple[str, str]] = []
    context = Context()
    context.run(PLACE.set, "the agent's")
    receipt = Receipt()
    receipt.then(lambda _: told.append(("first", PLACE.get())))
    receipt.then(lambda _: told.append(("second", PLACE.get())), context)
    settle([receipt])
    assert told == [("first", "nowhere"), ("second", "the agent's")]
    settle([receipt])
    assert len(told) == 2, "each once"


async def test_a_callback_added_after_the_commit_runs_in_the_next_iteration() -> None:
    told: list[Receipt] = []
    receipt = Receipt()
    settle([receipt])
    receipt.then(told.append)
    assert not told
    await turn_of_the_loop()
    assert told == [receipt]


async def test_a_cancelled_waiter_does_not_keep_the_result_from_others() -> None:
    gone, there = Receipt(), Receipt(result=2)
    leaving, staying = asyncio.ensure_future(gone), asyncio.ensure_future(there)
    told: list[Receipt] = []
    gone.then(told.append)
    await turn_of_the_loop()
    leaving.cancel()
    gone.cancel(told.append)
    settle([gone, there])
    assert await staying == 2
    assert not told
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_the_others_are_told_even_if_one_stops_the_process() -> None:
    def stop(_: Receipt) -> None:
        raise SystemExit

    first, second, third = receipts = [Receipt(), Receipt(), Receipt()]
    told: list[Receipt] = []
    first.then(told.append)
    first.then(stop)
    first.then(told.append)
    second.then(told.append)
    third.then(told.append)
    with pytest.raises(SystemExit):
        settle(receipts)
    assert told == [first]
    await turn_of_the_loop()
    assert told == [first, first, second, third], "each once"


async def test_a_waiter_gets_the_result_although_a_callback_was_removed() -> None:
    receipt, told = Receipt(result=3), list[Receipt]()
    receipt.then(told.append)
    waiting = asyncio.ensure_future(receipt)
    await turn_of_the_loop()
    receipt.cancel(told.append)
    settle([receipt])
    assert await waiting == 3
    assert not told


async def test_what_failed_leaves_nothing_for_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        error = NoRoom()
        gone, receipt = weakref.ref(error), Receipt(error=error, is_done=True)
        with contextlib.suppress(NoRoom):
            await receipt
        del receipt, error
        assert gone() is None
    finally:
        gc.enable()


async def test_whatever_can_be_awaited_has_a_receipt() -> None:
    async def write() -> int:
        await turn_of_the_loop()
        return 7

    async def fail() -> None:
        raise ValueError("no room")

    own = Receipt()
    assert receipt_for(own) is own
    assert await receipt_for(write()) == 7
    with pytest.raises(ValueError, match="no room"):
        await receipt_for(fail())


async def test_a_cancelled_receipt_stops_if_it_can_and_tells_later_callbacks() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    receipt = receipt_for(write())
    await began.wait()
    receipt.cancel(print)
    told: list[BaseException | None] = []
    receipt.then(lambda done: told.append(done.error))
    await ended.wait()
    await turn_of_the_loop()
    assert [type(error) for error in told] == [asyncio.CancelledError]
