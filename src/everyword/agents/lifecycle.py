"""Keeping an agent loaded, and destroying it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, NoReturn, Protocol

from ..errors import AgentGone
from ..ids import AgentId
from ..runtime.agent_runtime import AgentRuntime

__all__ = ["DestroyedRuntime", "HasLifecycle", "KeepAlive"]


class KeepAlive:
    """Keeps an agent loaded: within `async with`, or from `await` until the returned function is called."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._release: Callable[[], None] | None = None

    async def __aenter__(self) -> None:
        self._release = await self._runtime.fibers.hold()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._release is not None:
            self._release()

    def __await__(self) -> Generator[Any, None, Callable[[], None]]:
        return self._runtime.fibers.hold().__await__()


class _Agent(Protocol):
    @property
    def _runtime(self) -> AgentRuntime: ...


class HasLifecycle:
    """Methods of an agent that keep it loaded or destroy it."""

    def keep_alive(self: _Agent) -> KeepAlive:
        """Keep the agent loaded for work that the runtime cannot see: `async with self.keep_alive(): …`.

        `release = await self.keep_alive()` does so until `release()` is called. Turns, jobs, fibers, calls and open
        connections do not need it. It ends with the process: use a fiber or a job for work that must survive a restart.
        """
        return KeepAlive(self._runtime)

    async def destroy(self: _Agent) -> None:
        """Delete this agent, all that it stored and every agent below it; after a crash, all of it or nothing.

        Running turns and jobs are stopped without notice, sockets are closed, and queued and scheduled jobs are
        dropped. The agent's own code may call it; that code continues, but every further use of the agent raises. A new
        agent may then use the name.
        """
        await self._runtime.destroy()

    def _retire(self: _Agent, why: AgentGone) -> None:
        """Make every further use of the runtime raise `why`, since the agent was destroyed. Called by the runtime."""
        self.__dict__["_runtime"] = DestroyedRuntime(self._runtime.agent, why)


class DestroyedRuntime:
    """Replaces the runtime of an agent that was destroyed: it knows the id, and every request raises."""

    def __init__(self, agent: AgentId, why: AgentGone) -> None:
        self.agent, self._why = agent, why

    def __getattr__(self, name: str) -> NoReturn:
        raise self._why.with_traceback(None)
