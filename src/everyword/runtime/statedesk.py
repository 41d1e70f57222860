"""Setting and reading an agent's state: `runtime.api.StatePort` over its own mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Raw

from ..core.commands import SetState
from ..errors import UsageError
from ..ids import AgentId
from .directory import Directory, Loaded

__all__ = ["StateDesk"]


class StateDesk:
    """Implements `StatePort` for one agent of a directory."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent
        self._late = 0
        """How many states wait for the agent to be loaded: those that come meanwhile wait behind them."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._directory.loop

    @property
    def is_ready(self) -> bool:
        return not self._late and self._directory.usable(self._agent) is not None

    @property
    def owner(self) -> object | None:
        loaded = self._directory.peek(self._agent)
        return loaded.owner if loaded is not None else None

    def read(self, reader: object) -> bytes | None:
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            raise UsageError(f"unable to read the state of {self._agent!r}; it is not loaded. Use a handle.")
        waiting = loaded.states.newest(None if loaded.owner is reader else reader)
        return waiting if waiting is not None else loaded.agency.value

    def put(
        self, state: bytes, writer: object, *, origin: str | None = None, must_fit: bool = True
    ) -> asyncio.Future[Any]:
        loaded = self._directory.usable(self._agent)
        assert loaded is not None, "the caller has looked, or waited for it"
        reply = loaded.actor.post(SetState(Raw(state), origin), must_fit=must_fit)
        loaded.states.add(state, writer, reply)
        loaded.users += 1  # an agent that is unloaded before the commit could lose what no code awaits
        reply.add_done_callback(partial(self._release, loaded))
        return reply

    def _release(self, loaded: Loaded, reply: asyncio.Future[Any]) -> None:
        loaded.users -= 1
        loaded.used_at = self._directory.clock.now()

    def wait_in_line(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._late += 1
        task = self._directory.spawn(work, f"state of {self._agent}")
        task.add_done_callback(self._has_waited)
        return task

    def _has_waited(self, task: asyncio.Task[None]) -> None:
        self._late -= 1

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            work.close()  # it was destroyed meanwhile
        else:
            loaded.agency.spawn(work, f"{name} of {self._agent}")

    @property
    def is_waiting(self) -> bool:
        loaded = self._directory.peek(self._agent)
        return loaded is not None and loaded.states.are_waiting

    def then(self, work: Callable[[], None]) -> None:
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            work()
        else:
            loaded.states.then(work)

    async def committed(self) -> None:
        if (loaded := self._directory.peek(self._agent)) is not None:
            await loaded.states.committed()
