"""StateChange: what `set_state` returns; awaiting it waits for the commit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Generator
from typing import Any, Final

from typing_extensions import TypeVar

from ...errors import AgentStopped

__all__ = ["STOPPED", "CommitOutcome", "StateChange", "StateT"]

StateT = TypeVar("StateT", default=Any)
"""The state of an agent: `Agent[Cart]`."""

log = logging.getLogger("everyword.agents")

STOPPED: Final = "unable to set the state; the agent was stopped"


class StateChange(Awaitable[StateT]):
    """A state that was set: `await` waits until it is committed and returns it, or raises why it is not stored.

    It may be awaited several times, or not at all: a failure that no code awaits is logged.
    """

    def __init__(self, outcome: CommitOutcome) -> None:
        self._outcome = outcome

    def __await__(self) -> Generator[Any, None, StateT]:
        try:
            state: StateT = yield from self._outcome.wait().__await__()
            return state
        finally:
            del self  # what is raised knows this frame: drop the reference to avoid a cycle

    def __del__(self) -> None:
        self._outcome.drop()


class CommitOutcome:
    """The outcome of storing a state: stored or failed. A failure that no code awaits is logged."""

    def __init__(self, agent: object) -> None:
        self._agent = agent
        self._waiters: list[asyncio.Future[None]] = []
        self._is_known = self._is_awaited = self._is_dropped = False
        self._state: Any = None
        self._error: BaseException | None = None

    def set_stored(self, state: Any) -> None:
        self._state = state
        self._tell()

    def set_failed(self, error: BaseException) -> None:
        self._error = error
        self._tell()

    def set_stopped(self) -> None:
        """Fail, unless the outcome is known: the agent was stopped."""
        if not self._is_known:
            self.set_failed(AgentStopped(STOPPED))

    def _tell(self) -> None:
        self._is_known = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._report()

    async def wait(self) -> Any:
        if not self._is_known:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self._is_awaited = True
        if self._error is None:
            return self._state
        try:
            raise self._error
        finally:
            del self  # what is raised knows this frame: drop the reference to avoid a cycle

    def drop(self) -> None:
        """Record that no code can await the change any more."""
        self._is_dropped = True
        self._report()

    def _report(self) -> None:
        if not (self._is_dropped and self._is_known) or self._is_awaited or self._error is None:
            return
        if isinstance(self._error, AgentStopped):
            log.info("a state of %r was not stored, and no code awaited it: %s", self._agent, self._error)
        else:
            log.error("a state of %r was not stored, and no code awaited it", self._agent, exc_info=self._error)
