"""An app in the test's own loop: no sockets, a store that can die at any append, and a process that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

import httpx

from ..agents import Agent, AIChatAgent, ChatHandle, Handle, Think, ThinkHandle, agent_kind
from ..client import ChatClient
from ..client.backoff import Backoff
from ..errors import UsageError
from ..log.base import LogStore
from ..log.memory import MemoryLog
from ..log.sqlite.store import SqliteLog
from ..runtime.clock import Clock
from ..runtime.phase import Phase
from ..server import Everyword
from ..server.stop_signals import StopSignals
from .crash import CrashingLog
from .network import Network

__all__ = ["Life", "LocalServer"]

A = TypeVar("A", bound=Agent[Any])
ChatT = TypeVar("ChatT", bound=AIChatAgent[Any])
ThinkT = TypeVar("ThinkT", bound=Think[Any])
URL = "http://localhost"
SOON = Backoff(first=0.002, most=0.05)
"""How soon clients come back: nobody else waits in line."""

QUIET = 5
"""Turns of the loop without a task after which none will come."""

_life: ContextVar[Life | None] = ContextVar("everyword_life", default=None)


class Life:
    """One run of an app, with every task that it starts: `end` is what `kill -9` does to them."""

    def __init__(self, app: Everyword) -> None:
        self.app = app
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = copy_context()
        self._context.run(_life.set, self)
        _own_tasks(asyncio.get_running_loop())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something as a part of this life."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    async def start(self) -> None:
        await self.spawn(_started(self.app))
        self.app._directory.fresh_context = self._context.copy  # agents are ours whoever loads them

    async def stop(self) -> None:
        """Stop in good order."""
        await self.spawn(self.app.aclose())

    async def end(self) -> None:
        """Throw everything away that runs, as it stands; what the end of one task starts as well."""
        self.app._signals.deafen()
        if hasattr(self.app, "_directory"):
            self.app._directory.phase = Phase.CLOSED  # the dead start nothing
        quiet = 0
        while quiet < QUIET:
            left = [task for task in self._tasks if not task.done() and task is not asyncio.current_task()]
            quiet = 0 if left else quiet + 1
            for task in left:
                task.cancel()
            await asyncio.sleep(0)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _started(app: Everyword) -> None:
    await app.start()


def _own_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have every new task of the loop counted to the life that it is started in."""
    before = loop.get_task_factory()
    if getattr(before, "counts_lives", False):
        return

    def made(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        task: Any = before(loop, work, **options) if before is not None else asyncio.Task(work, loop=loop, **options)
        context = options.get("context")
        life = _life.get() or (context.get(_life) if context is not None else None)
        if life is not None:
            life.adopt(task)
            if context is not None and context.get(_life) is None:  # a context of its own; what it starts is ours too
                context.run(_life.set, life)
        return task

    made.counts_lives = True  # type: ignore[attr-defined]
    loop.set_task_factory(made)


class LocalServer:
    """Runs agents in the test's own loop; use it as an async context manager.

    Give it agent classes, or an app: that very object is served, with another store until the server is left. `store`
    is a path, or "memory:". Clients talk to it as they do over a network, without one.
    """

    def __init__(
        self,
        *agents: type[Agent] | Everyword,
        store: str | Path = "memory:",
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        apps = [agent for agent in agents if isinstance(agent, Everyword)]
        classes = [agent for agent in agents if not isinstance(agent, Everyword)]
        if len(apps) + bool(classes) != 1 or (apps and options):
            raise UsageError("unable to run this; give either agent classes and options, or one app")
        self._given = apps[0] if apps else Everyword(classes, **options)
        self._clock, self._path = clock, store
        self._memory = MemoryLog()
        self._life: Life | None = None
        self._store: CrashingLog | None = None
        self._networks: list[Network] = []
        self._clients: list[httpx.AsyncClient] = []

    # -- life and death ---------------------------------------------------------------------------------------------

    @property
    def app(self) -> Everyword:
        """The app that runs: the one that was given, also after a restart."""
        if self._life is None:
            raise UsageError("unable to use the app; it does not run. Use `async with LocalServer(...)`.")
        return self._life.app

    @property
    def crashed(self) -> asyncio.Event:
        """Set when the append was reached at which it was to die."""
        return self._crashing().crashed

    @property
    def appends(self) -> int:
        """How many appends were asked for since the last start."""
        return self._crashing().appends

    def _crashing(self) -> CrashingLog:
        if self._store is None:
            raise UsageError("unable to look at the log; it does not run. Use `async with LocalServer(...)`.")
        return self._store

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            await client.aclose()
        await self.stop()

    async def start(self, *, crash_at: int | None = None, when: Literal["before", "after"] = "before") -> None:
        """Start on what is stored. With `crash_at` it dies at that append: wait for `crashed`, then `kill`."""
        app = self._given
        if app._starting is not None and not app._is_closed:
            raise UsageError("unable to serve this app; it runs already. Leave the server or the app that runs it.")
        self._store = CrashingLog(self._opened(), crash_at, when)
        self._own = app._store, app.grace, app.clock, app._signals
        app._store, app._starting, app._closing = self._store, None, None
        app._signals = StopSignals(app._begin_close)
        app.grace, app.clock = 0.0, self._clock
        self._life = Life(app)
        try:
            await self._life.start()
        except BaseException:
            self._life = None
            self._give_back()
            raise
        for network in self._networks:
            network.app, network.spawn = app, self._life.spawn

    def _opened(self) -> LogStore:
        return self._memory if self._path == "memory:" else SqliteLog(Path(self._path))

    async def stop(self) -> None:
        """Stop in good order; what is not finished stays open for the next start."""
        if self._life is not None:
            life, self._life = self._life, None
            await life.stop()
            await self._hang_up()
            await life.end()
            self._give_back()

    def _give_back(self) -> None:
        """Let the app be as it was given."""
        app = self._given
        app._store, app.grace, app.clock, app._signals = self._own
        app._starting = app._closing = None

    async def kill(self) -> None:
        """Stop as under `kill -9`: nothing is finished, nothing is written, nobody is told."""
        if self._life is None or self._store is None:
            return
        life, self._life = self._life, None
        store, self._store = self._store, None
        store.crashed.set()
        await self._hang_up()
        await life.end()
        self._give_back()
        await store.wrapped.aclose()

    async def restart(self) -> None:
        """Kill it, and start it again on what is stored."""
        await self.kill()
        await self.start()

    async def _hang_up(self) -> None:
        for network in self._networks:
            network.app = None
            network.cut()

    # -- talking to it ------------------------------------------------------------------------------------------------

    def network(self) -> Network:
        """Return a way to the app of its own, that can be cut without touching others."""
        network = Network()
        if self._life is not None:
            network.app, network.spawn = self._life.app, self._life.spawn
        self._networks.append(network)
        return network

    def client(
        self, agent: type[Agent] | str, name: str = "test", *, network: Network | None = None, **options: Any
    ) -> ChatClient:
        """Return a client of one agent; enter it as any other. Survives cuts, kills and restarts."""
        way = network if network is not None else self.network()
        kind = agent if isinstance(agent, str) else agent_kind(agent)
        given = {"connect": way.connect, "transport": way.transport, "backoff": SOON, **options}
        return ChatClient(URL, kind, name, base_path=self._given.base_path, **given)

    def http(self, agent: type[Agent] | str, name: str = "test", **options: Any) -> httpx.AsyncClient:
        """Return a client of httpx whose base is one agent; closed with everything else."""
        kind = agent if isinstance(agent, str) else agent_kind(agent)
        base = f"{URL}{self._given.base_path}/{kind}/{name}"
        client = httpx.AsyncClient(transport=self.network().transport, base_url=base, **options)
        self._clients.append(client)
        return client

    @overload
    def get(self, cls: type[ThinkT], name: str = "test") -> ThinkHandle[ThinkT]: ...
    @overload
    def get(self, cls: type[ChatT], name: str = "test") -> ChatHandle[ChatT]: ...
    @overload
    def get(self, cls: type[A], name: str = "test") -> Handle[A]: ...
    def get(self, cls: type[Any], name: str = "test") -> Any:
        """Return a handle to one agent, as `Everyword.get` does; it can be used again after a restart."""
        return self.app.get(cls, name)
