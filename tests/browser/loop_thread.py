"""An event loop in a thread, so that synchronous tests can drive asynchronous pages and servers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

__all__ = ["PATIENCE", "Loop"]

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to wait for a condition before the test fails."""


class Loop:
    """Runs coroutines for other threads. The browser of a test worker and its pages belong to one such loop.

    Playwright's synchronous interface cannot be used: it leaves a running loop in the main thread, and then `async`
    tests of the same worker cannot start one.
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
        """Start a coroutine. The caller must wait for it before it closes the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in the loop's thread."""

        async def call() -> T:
            return function(*args)

        return self.run(call())
