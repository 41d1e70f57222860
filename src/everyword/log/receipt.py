"""The store's receipt for something that is being written: awaited, or called back as soon as it is committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextvars import Context
from typing import Any

import msgspec

__all__ = ["Receipt", "receipt_for", "settle"]


class Receipt(msgspec.Struct, eq=False):
    """Something that is being written, and what came of it.

    A future would call back in the next iteration of the event loop, by one callback each. One transaction has the
    batches of many agents, so a receipt calls back at once, from `settle`.
    """

    result: Any = None
    error: BaseException | None = None
    is_done: bool = False
    writing: asyncio.Future[Any] | None = None
    """The task that writes it, if it can be cancelled."""
    waiting: list[tuple[Callable[[Any], object], Context | None]] = []

    def then(self, call: Callable[[Any], object], context: Context | None = None) -> None:
        """Call this with the receipt when it is done, in the context; never before this method returns.

        `call` must not raise anything but what stops the process.
        """
        if self.is_done:
            asyncio.get_running_loop().call_soon(call, self, context=context)
        else:
            self.waiting.append((call, context))

    def cancel(self, call: Callable[[Any], object]) -> None:
        """Do not call this any more, and stop the writing if that is possible. It may be committed all the same."""
        self.waiting = [each for each in self.waiting if each[0] != call]
        if self.writing is not None:
            self.writing.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.is_done:
            done = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if done.done() else done.set_result(None))
            yield from done
        if self.error is None:
            return self.result
        try:
            raise self.error
        finally:
            del self  # drop the reference: the exception refers to this frame, and a cycle would wait for the collector


def settle(receipts: Iterable[Receipt]) -> None:
    """Mark the receipts as done and call back whatever waits for them; each has its result or its error."""
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
        if left:  # Ctrl-C in the middle: the others are called back before the process ends
            asyncio.get_running_loop().call_soon(settle, left)


def receipt_for(writing: Awaitable[Any]) -> Receipt:
    """Return the receipt of something that can be awaited, and run it."""
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
