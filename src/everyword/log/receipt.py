"""What a store gives for a piece of writing: whoever has it is told of the commit on the spot."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextvars import Context
from typing import Any

import msgspec

__all__ = ["Receipt", "receipt_for", "settle"]


class Receipt(msgspec.Struct, eq=False):
    """Something that is being written: await it, or be called back.

    A future calls back in the next turn of the loop, by a call of its own for each. Here a commit of many agents is
    told to all of them in one go, by whoever learns of it.
    """

    result: Any = None
    error: BaseException | None = None
    is_done: bool = False
    writing: asyncio.Future[Any] | None = None
    """Who writes it, if that can be stopped."""
    waiting: list[tuple[Callable[[Any], object], Context | None]] = []

    def then(self, call: Callable[[Any], object], context: Context | None = None) -> None:
        """Call this with the receipt when it is done, within the context; never before this returns.

        `call` must not raise anything but what stops the process.
        """
        if self.is_done:
            asyncio.get_running_loop().call_soon(call, self, context=context)
        else:
            self.waiting.append((call, context))

    def cancel(self, call: Callable[[Any], object]) -> None:
        """Do not call this any more, and stop the writing if that is possible. It may be done all the same."""
        self.waiting = [each for each in self.waiting if each[0] != call]
        if self.writing is not None:
            self.writing.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.is_done:
            told = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if told.done() else told.set_result(None))
            yield from told
        if self.error is None:
            return self.result
        try:
            raise self.error
        finally:
            del self  # what is raised knows this frame: if the frame knew it too, both would wait for the collector


def settle(receipts: Iterable[Receipt]) -> None:
    """Tell everybody who waits for one of these: each has its result or its error."""
    left = deque(receipts)
    try:
        while left:
            receipt = left[0]
            receipt.is_done = True
            while receipt.waiting:
                call, context = receipt.waiting.pop(0)
                if context is None:
                    call(receipt)
                else:
                    context.run(call, receipt)
            del left[0]
    finally:
        if left:  # somebody stops the process in the middle: the others are told before it ends
            asyncio.get_running_loop().call_soon(settle, left)


def receipt_for(writing: Awaitable[Any]) -> Receipt:
    """Return what tells when something that can be awaited is done."""
    if isinstance(writing, Receipt):
        return writing
    receipt = Receipt(writing=asyncio.ensure_future(writing))
    assert receipt.writing is not None
    receipt.writing.add_done_callback(lambda done: _take(receipt, done))
    return receipt


def _take(receipt: Receipt, done: asyncio.Future[Any]) -> None:
    if done.cancelled():
        receipt.error = asyncio.CancelledError()
    elif (error := done.exception()) is not None:
        receipt.error = error
    else:
        receipt.result = done.result()
    settle([receipt])
