"""An event loop in a thread of its own: tests are plain functions, what they drive is asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

__all__ = ["PATIENCE", "Loop"]

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds after which a fact that has not come about never will."""


class Loop:
    """Runs coroutines for other threads. The browser of a worker and its pages live in one of these.

    Playwright's own synchronous interface is no choice: it leaves a running loop in the main thread, where `async`
    tests of the same worker could then start none.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], *, patience: float | None = PATIENCE) -> T:
        """Run a coroutine to its end; raises TimeoutError when it takes longer than `patience` seconds."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(patience)
        except TimeoutError:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine; the caller waits for it before it leaves the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in the loop's thread."""

        async def call() -> T:
            return function(*args)

        return self.run(call())
