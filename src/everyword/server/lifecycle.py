"""Start and stop of the app: one start for any number of callers, and a close that a signal can begin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .service import Service
from .stop_signals import StopSignals

__all__ = ["Lifecycle"]


class Lifecycle:
    """One app's run: not started, starting, running, closing, closed. `start` begins another run after a close.

    `open_service` opens the log and returns what requests need. `close_service` is called with the service, or with
    None if the start failed.
    """

    def __init__(
        self,
        open_service: Callable[[], Awaitable[Service]],
        close_service: Callable[[Service | None], Awaitable[None]],
    ) -> None:
        self._open, self._close_service = open_service, close_service
        self._starting: asyncio.Task[Service] | None = None
        self._closing: asyncio.Task[None] | None = None
        self.signals = StopSignals(self.begin_close)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and is not closed."""
        return self._starting is not None and not self._is_closed

    @property
    def _is_closed(self) -> bool:
        return self._closing is not None and self._closing.done()

    async def start(self) -> Service:
        """Start, or wait for a start that is under way; start again after a close.

        Raises:
            LogError: the log cannot be used; another call tries again.
        """
        if self._is_closed:
            self._starting = self._closing = None
        return await self.service()

    async def service(self) -> Service:
        """Start unless it was started. A closed app stays closed: a late request must not start it again."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._run_open(), name="start of everyword")
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except BaseException:
            if starting.done() and self._starting is starting and (starting.cancelled() or starting.exception()):
                self._starting = None
            raise

    async def _run_open(self) -> Service:
        service = await self._open()
        self.signals.listen()
        return service

    async def aclose(self) -> None:
        """Close, or wait for a close that is under way."""
        self.signals.deafen()
        self.begin_close()
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def begin_close(self) -> None:
        """Begin to close, from a signal too: no turn starts from now on."""
        if self._starting is not None and self._closing is None:
            service = _started(self._starting)
            if service is not None:
                service.directory.begin_drain()  # now: a turn that ends before the task runs must not start another
            self._closing = asyncio.create_task(self._close(self._starting), name="end of everyword")

    async def _close(self, starting: asyncio.Task[Service]) -> None:
        await asyncio.wait({starting})
        await self._close_service(_started(starting))


def _started(starting: asyncio.Task[Service]) -> Service | None:
    if not starting.done() or starting.cancelled() or starting.exception() is not None:
        return None
    return starting.result()
