"""Open sockets and streams by who opened them, so that they end with their principal's time, or when it is revoked."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..ids import Millis
from ..runtime.clock import Clock
from .permissions import Permit

__all__ = ["Close", "OpenConnections"]

Close = Callable[[], None]


class OpenConnections:
    """What principals have open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: defaultdict[str, set[Close]] = defaultdict(set)

    @contextmanager
    def admit(self, permit: Permit, close: Close, *, outlives: bool = False) -> Iterator[None]:
        """Call `close` when the principal is revoked while the block runs, or expires, unless it `outlives` that."""
        principal = permit.principal
        self._open[principal.id].add(close)
        expires = principal.expires
        timer = None
        if expires is not None and not outlives:
            timer = asyncio.create_task(self._expire(expires, close), name=f"expiry of {principal.id!r}")
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            mine = self._open[principal.id]
            mine.discard(close)
            if not mine:
                del self._open[principal.id]

    def disconnect(self, principal: str) -> int:
        """Close everything that a principal has open; return how much that was."""
        closing = list(self._open.get(principal, ()))
        for close in closing:
            close()
        return len(closing)

    async def _expire(self, at: Millis, close: Close) -> None:
        await self._clock.sleep_until(at)
        close()
