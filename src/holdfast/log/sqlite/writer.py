"""The one thread that writes.

What waits while a commit is in flight is the next transaction: no timer, no window. If a transaction is refused,
it is taken back and tried again in halves, until the batch that breaks a rule stands alone; so one bad batch harms
nobody, and the others pay nothing for the guard (a savepoint per batch would double the cost of a commit). The
thread outlives every error of the disk: whoever waits is told, and the next transaction is tried afresh.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ...errors import HoldfastError, LogUnavailable
from .retention import Retention, Sweep
from .scribe import Head, Scribe

__all__ = ["Writer"]

log = logging.getLogger(__name__)


class _Job:
    """A piece of writing, whoever waits for it, and what came of it."""

    __slots__ = ("argument", "error", "future", "result", "what", "work")

    def __init__(
        self, work: Callable[[Scribe, Any], object] | None, argument: object, what: str, future: asyncio.Future[Any]
    ) -> None:
        self.work, self.argument, self.what, self.future = work, argument, what, future
        self.result: object = None
        self.error: HoldfastError | None = None


class Writer:
    """Owns the connection that writes. `start` and `submit` belong to the event loop, the rest to the thread."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        heads: dict[int, Head],
        *,
        before: Callable[[], None],
        after: Callable[[], None],
    ) -> None:
        self._connect, self._heads = connect, heads
        self._before, self._after = before, after
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._scribe: Scribe | None = None
        self._retention: Retention | None = None
        self._sweeps: deque[_Job] = deque()
        self._is_closed = False
        self._ended = self._loop.create_future()
