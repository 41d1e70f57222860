"""An app in the test's own loop: no sockets, a store that can crash at any append, and a simulated `kill -9`."""

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
from ..runtime.phase import ShutdownPhase
from ..server import Everyword
from ..server.lifecycle import Lifecycle
from .crashing_log import CrashingLog
from .network import Network

__all__ = ["AppRun", "LocalServer"]

A = TypeVar("A", bound=Agent[Any])
ChatT = TypeVar("ChatT", bound=AIChatAgent[Any])
ThinkT = TypeVar("ThinkT", bound=Think[Any])
URL = "http://localhost"
SOON = Backoff(first=0.002, most=0.05)
"""How soon clients reconnect: in a test no other clients compete."""

QUIET = 5
"""Iterations of the loop without a task after which no new one is expected."""

_current_run: ContextVar[AppRun | None] = ContextVar("everyword_app_run", default=None)


class AppRun:
    """One run of an app, with every task that it starts. `end` cancels them all, as `kill -9` would."""

    def __init__(self, app: Everyword) -> None:
        self.app = app
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = copy_context()
        self._context.run(_current_run.set, self)
        _track_tasks(asyncio.get_running_loop())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that belongs to this run."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    async def start(self) -> None:
        await self.spawn(_started(self.app))
        self.app._directory.fresh_context = self._context.copy  # agents belong to this run, also if the test loads them

    async def stop(self) -> None:
        """Shut down gracefully."""
        await self.spawn(self.app.aclose())

    async def end(self) -> None:
        """Cancel all tasks, also those that start while others end."""
        self.app._lifecycle.signals.deafen()
        if hasattr(self.app, "_directory"):
            self.app._directory.phase = ShutdownPhase.CLOSED  # a dead process starts nothing
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


def _track_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Assign every new task of the loop to the run that starts it."""
    before = loop.get_task_factory()
    if getattr(before, "counts_runs", False):
        return

    def made(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        task: Any = before(loop, work, **options) if before is not None else asyncio.Task(work, loop=loop, **options)
        context = options.get("context")
        run = _current_run.get() or (context.get(_current_run) if context is not None else None)
        if run is not None:
            run.adopt(task)
            if (
                context is not None and context.get(_current_run) is None
            ):  # a context of its own; what it starts is ours too
                context.run(_current_run.set, run)
        return task

    made.counts_runs = True  # type: ignore[attr-defined]
    loop.set_task_factory(made)


class LocalServer:
    """Runs agents in the test's own loop; use it as an async context manager.

    Pass agent classes, or an app: that object is served, with another store until the server is left. `store` is a
    path, or "memory:". Clients use it as they do over a network.
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
        self._run: AppRun | None = None
        self._store: CrashingLog | None = None
        self._networks: list[Network] = []
        self._clients: list[httpx.AsyncClient] = []

    # -- start, stop and kill ---------------------------------------------------------------------------------------

    @property
    def app(self) -> Everyword:
        """The running app: the given one, also after a restart."""
        if self._run is None:
            raise UsageError("unable to use the app; it does not run. Use `async with LocalServer(...)`.")
        return self._run.app

    @property
    def crashed(self) -> asyncio.Event:
        """Set when the server has crashed at the append that `start(crash_at=...)` chose."""
        return self._crashing().crashed

    @property
    def appends(self) -> int:
        """Number of appends since the last start."""
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
        """Start on the stored log. With `crash_at` it crashes at that append: wait for `crashed`, then `kill`."""
        app = self._given
        if app._lifecycle.is_running:
            raise UsageError("unable to serve this app; it runs already. Leave the server or the app that runs it.")
        self._store = CrashingLog(self._opened(), crash_at, when)
        self._own = app._store, app.grace, app.clock
        app._store, app.grace, app.clock = self._store, 0.0, self._clock
        app._lifecycle = Lifecycle(app._open, app._close)
        self._run = AppRun(app)
        try:
            await self._run.start()
        except BaseException:
            self._run = None
            self._restore_app()
            raise
        for network in self._networks:
            network.app, network.spawn = app, self._run.spawn

    def _opened(self) -> LogStore:
        return self._memory if self._path == "memory:" else SqliteLog(Path(self._path))

    async def stop(self) -> None:
        """Shut down gracefully; unfinished turns stay open for the next start."""
        if self._run is not None:
            run, self._run = self._run, None
            await run.stop()
            await self._cut_networks()
            await run.end()
            self._restore_app()

    def _restore_app(self) -> None:
        """Restore the given app's own settings."""
        app = self._given
        app._store, app.grace, app.clock = self._own
        app._lifecycle = Lifecycle(app._open, app._close)

    async def kill(self) -> None:
        """Stop as under `kill -9`: nothing is finished, written or sent."""
        if self._run is None or self._store is None:
            return
        run, self._run = self._run, None
        store, self._store = self._store, None
        store.crashed.set()
        await self._cut_networks()
        await run.end()
        self._restore_app()
        await store.wrapped.aclose()

    async def restart(self) -> None:
        """Kill it, and start it again on the stored log."""
        await self.kill()
        await self.start()

    async def _cut_networks(self) -> None:
        for network in self._networks:
            network.app = None
            network.cut()

    # -- clients and handles ---------------------------------------------------------------------------------------

    def network(self) -> Network:
        """Return a network to the app that can be cut alone."""
        network = Network()
        if self._run is not None:
            network.app, network.spawn = self._run.app, self._run.spawn
        self._networks.append(network)
        return network

    def client(
        self, agent: type[Agent] | str, name: str = "test", *, network: Network | None = None, **options: Any
    ) -> ChatClient:
        """Return a client of one agent, to be used with `async with`. It survives cuts, kills and restarts."""
        way = network if network is not None else self.network()
        kind = agent if isinstance(agent, str) else agent_kind(agent)
        given = {"connect": way.connect, "transport": way.transport, "backoff": SOON, **options}
        return ChatClient(URL, kind, name, base_path=self._given.base_path, **given)

    def http(self, agent: type[Agent] | str, name: str = "test", **options: Any) -> httpx.AsyncClient:
        """Return an `httpx.AsyncClient` whose base URL is one agent; it is closed with the server."""
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
