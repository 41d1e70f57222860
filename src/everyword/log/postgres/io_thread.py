"""A thread with an event loop of its own, so that a blocked thread can wait for the database.

Code of agents may wait for `self.sql` without `await`, which blocks the server's event loop. What it waits for must not
need that loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from ...errors import LogUnavailable

__all__ = ["IoThread"]

T = TypeVar("T")

MARGIN: Final = 1.0
"""Seconds that a caller waits longer than the call may take, in case that this thread gets no time."""


class IoThread:
    """Starts with the first call. Any thread but its own may call it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    def run(self, doing: str, call: Callable[[], Coroutine[Any, Any, T]], timeout: float) -> T:
        """Run the coroutine in this thread and wait for it. It has to end by itself within `timeout` seconds.

        Raises:
            LogUnavailable: it did not.
        """
        future = asyncio.run_coroutine_threadsafe(call(), self._started())
        try:
            return future.result(timeout + MARGIN)
        except TimeoutError as exc:
            future.cancel()
            raise LogUnavailable(f"unable to {doing}; it took more than {timeout:g} s") from exc

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call the function in this thread, if it runs; does not wait."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """End the thread; what is under way fails. The next call starts it again."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(asyncio.wait(tasks, timeout=MARGIN) if tasks else asyncio.sleep(0))
    finally:
        loop.close()
