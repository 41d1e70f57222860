"""An agent's state, as its own code and everybody else may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

__all__ = ["StatePort"]


class StatePort(Protocol):
    """An agent's state: the committed one, and those on their way to the log (R-21)."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the agent lives in; the rest of this is for its thread only."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether a state can be put right now; else `wait_in_line`."""
        ...

    @property
    def owner(self) -> object | None:
        """The object that runs the agent's own code, while it is loaded."""
        ...

    def read(self, reader: object) -> bytes | None:
        """Return the state as JSON; None until one was set.

        The owner reads the one that was set last. Others read the committed one, or their own that waits.

        Raises:
            UsageError: the agent is not loaded; `load` it.
        """
        ...

    def put(
        self, state: bytes, writer: object, *, origin: str | None = None, must_fit: bool = True
    ) -> asyncio.Future[Any]:
        """Replace the state, given as JSON; the future is done when it is committed, and must not be cancelled.

        `origin` is the socket that has it already.

        Raises:
            MailboxFull: there is no room, unless it must fit.
            AgentStopped: the agent was stopped.
        """
        ...

    def wait_in_line(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what loads the agent and puts a state; `is_ready` is false until it is over."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something of the agent's own beside everything else."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether a state that was set is not committed yet."""
        ...

    def then(self, work: Callable[[], None]) -> None:
        """Do something when all states that were set so far are committed; never, if one of them cannot be."""
        ...

    async def committed(self) -> None:
        """Wait until all states that were set so far are committed; raises why one of them is not."""
        ...
