"""One call of the event loop for all actors that have mail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

__all__ = ["Office"]


class Office:
    """Calls those who have something to do in the next turn of the loop, each within its own context, in order.

    A call of the loop for each would cost as much as what most of them do: they decide a word or two. `on_done` is
    called when all of them were: nobody else will bring something in the same turn.
    """

    def __init__(self, on_done: Callable[[], None] = lambda: None) -> None:
        self._on_done = on_done
        self._due: list[tuple[Callable[[], None], Context]] = []

    def call_soon(self, work: Callable[[], None], context: Context) -> None:
        """Call it once. It must not raise anything but what stops the process."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._call)
        self._due.append((work, context))

    def _call(self) -> None:
        due, self._due = self._due, []
        left = iter(due)
        try:
            for work, context in left:
                context.run(work)
            self._on_done()
        finally:
            for work, context in left:  # somebody stops the process in the middle: the others are called all the same
                self.call_soon(work, context)
