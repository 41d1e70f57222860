"""The state of an agent, for its own code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Raw

from ...core.commands import ReplaceState
from ...errors import UsageError
from ...ids import AgentId
from ..directory import Directory, LoadedAgent

__all__ = ["StateAccess"]


class StateAccess:
    """One agent's state: the committed one, and those on their way to the log (R-21)."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent
        self._late = 0
        """Number of states that wait for the agent to be loaded. States that are set meanwhile wait behind them."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the agent lives in; the rest of this is for its thread only."""
        return self._directory.loop

    @property
    def is_ready(self) -> bool:
        """Whether a state can be put right now; else `wait_in_line`."""
        return not self._late and self._directory.usable(self._agent) is not None

    @property
    def owner(self) -> object | None:
        """The object that runs the agent's own code, while it is loaded."""
        loaded = self._directory.peek(self._agent)
        return loaded.owner if loaded is not None else None

    def read(self, reader: object) -> bytes | None:
        """Return the state as JSON; None until one was set.

        The owner reads the one that was set last. Others read the committed one, or their own that waits.

        Raises:
            UsageError: the agent is not loaded; `load` it.
        """
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            raise UsageError(f"unable to read the state of {self._agent!r}; it is not loaded. Use a handle.")
        waiting = loaded.pending_states.newest(None if loaded.owner is reader else reader)
        return waiting if waiting is not None else loaded.reconciler.view.state_value

    def put(
        self, state: bytes, writer: object, *, origin: str | None = None, must_fit: bool = True
    ) -> asyncio.Future[Any]:
        """Replace the state, given as JSON; the future is done when it is committed, and must not be cancelled.

        `origin` is the socket that has it already.

        Raises:
            MailboxFull: there is no room, unless it must fit.
            AgentStopped: the agent was stopped.
        """
        loaded = self._directory.usable(self._agent)
        assert loaded is not None, "the caller has looked, or waited for it"
        reply = loaded.actor.post(ReplaceState(Raw(state), origin), must_fit=must_fit)
        loaded.pending_states.add(state, writer, reply)
        loaded.users += 1  # an agent that is unloaded before the commit could lose what no code awaits
        reply.add_done_callback(partial(self._release, loaded))
        return reply

    def _release(self, loaded: LoadedAgent, reply: asyncio.Future[Any]) -> None:
        loaded.users -= 1
        loaded.used_at = self._directory.clock.now()

    def wait_in_line(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what loads the agent and puts a state; `is_ready` is false until it is over."""
        self._late += 1
        task = self._directory.spawn(work, f"state of {self._agent}")
        task.add_done_callback(self._has_waited)
        return task

    def _has_waited(self, task: asyncio.Task[None]) -> None:
        self._late -= 1

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something of the agent's own beside everything else."""
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            work.close()  # it was destroyed meanwhile
        else:
            loaded.reconciler.spawn(work, f"{name} of {self._agent}")

    @property
    def is_waiting(self) -> bool:
        """Whether a state that was set is not committed yet."""
        loaded = self._directory.peek(self._agent)
        return loaded is not None and loaded.pending_states.are_waiting

    def then(self, work: Callable[[], None]) -> None:
        """Do something when all states that were set so far are committed; never, if one of them cannot be."""
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            work()
        else:
            loaded.pending_states.then(work)

    async def committed(self) -> None:
        """Wait until all states that were set so far are committed; raises why one of them is not."""
        if (loaded := self._directory.peek(self._agent)) is not None:
            await loaded.pending_states.committed()
