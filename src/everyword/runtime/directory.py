"""Which agents are loaded: activated on demand, woken by time, picked up after a crash, unloaded when idle.

One process owns its agents. Everything that runs is owned here and is over when `aclose` returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from ..core.commands import DestroyAgent
from ..core.state import Rules
from ..errors import AgentGone, AgentStopped, Fenced, LogError
from ..ids import AgentId, Epoch, Millis, Seq, children_prefix, root_id
from ..log.base import Activation, LogStore
from .activating import restored, started
from .actor import Actor
from .agent_tool_runs.watching import AgentToolRuns
from .api import CanBeDestroyed, Responder
from .clock import Clock, SystemClock
from .commit_loop import CommitLoop, OnAppend
from .deadlines import OUTDATED, Deadlines
from .declared_schedules import reconcile_declared
from .list_changes import ListChanges
from .load_failures import TRY_AGAIN, LoadFailures
from .ownership import NodeClock, Ownership
from .pending_states import PendingStates
from .phase import ShutdownPhase
from .presence import Presence
from .reconciler import Reconciler
from .settings import Settings
from .stored_ids import Kinds, StoredIds
from .subscription import Subscription
from .unloading import LET_GO, unload
from .wake_scheduler import WakeScheduler

T = TypeVar("T")

__all__ = ["Directory", "LoadedAgent", "Settings", "own_context", "starting_agents"]


log = logging.getLogger("everyword.runtime")


_NOBODY: frozenset[AgentId] = frozenset()
_activated: contextvars.ContextVar[frozenset[AgentId]] = contextvars.ContextVar("everyword_activated", default=_NOBODY)
"""The agent of this task, and the agents whose tasks loaded it: they may use each other before they have started."""


@dataclass(slots=True, eq=False)
class LoadedAgent:
    """An agent in memory: its actor, what it runs, and how many callers use it."""

    actor: Actor
    reconciler: Reconciler
    store: LogStore
    rules: Rules
    responder: Responder
    pending_states: PendingStates = field(default_factory=PendingStates)
    users: int = 0
    used_at: Millis = Millis(0)
    loaded_at: Millis = Millis(0)
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    is_destroyed: bool = False

    @property
    def owner(self) -> object | None:
        """The object whose code is the agent's own; None for responders that have none."""
        return getattr(self.responder, "agent", None)

    def subscribe(self, cursor: Seq | None = None, wake: asyncio.Event | None = None) -> Subscription:
        """Read the agent's log after `cursor`, or from now on; `wake` is the event of a reader of several logs."""
        return Subscription(self.actor.agent, self.actor.tail, self.store, cursor, wake)


class Directory:
    """An async context manager: entering opens the store and picks up what was left open, leaving shuts down (R-19)."""

    def __init__(
        self,
        store: LogStore,
        responders: Callable[[AgentId], Responder],
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
        forget: Callable[[AgentId], Awaitable[None]] | None = None,
        kinds: Kinds | None = None,
        on_append: OnAppend | None = None,
    ) -> None:
        self.store, self.clock = store, clock if clock is not None else _clock_of(store)
        self.settings = settings if settings is not None else Settings()
        self.attachments = self.settings.attachments
        self.phase = ShutdownPhase.SERVING
        self._responders = responders
        self._loaded: dict[AgentId, LoadedAgent] = {}
        self._loading: dict[AgentId, asyncio.Task[LoadedAgent]] = {}
        self.stored_ids = StoredIds(store, kinds, self._loaded.__contains__)
        self._failures = LoadFailures(self.settings.retry_after, self.settings.retry_at_most)
        self._forget = forget
        """Deletes what a destroyed agent keeps outside of the store."""
        self._destroying: dict[AgentId, asyncio.Task[None]] = {}
        self._rewriting: dict[AgentId, asyncio.Task[Any]] = {}
        self.erasing = asyncio.Lock()
        """Held while a principal is erased from an agent: the rewriting would cut off the `on_erase` of another one."""
        """Agents that cannot be loaded now, because their logs are rewritten."""
        self._departing: set[LoadedAgent] = set()
        """Destroyed agents of which something still runs."""
        self._errands: set[asyncio.Task[Any]] = set()
        """What runs for agents that are not loaded."""
        self.ownership = Ownership(self, store.nodes) if store.nodes is not None else None
        """What there is to do because other nodes share the store; None for a store of this process alone."""
        self.wakes = WakeScheduler(self)
        self.list_changes = ListChanges(store, self.clock)
        self.presence = Presence(self.stored_ids.known)
        on_append = self.list_changes.after(on_append)
        self._commit_loop = CommitLoop(store, on_append, lambda: self.fresh_context())  # noqa: PLW0108 - the test kit replaces it
        self._is_open = self._is_closing = False
        self.fresh_context: Callable[[], contextvars.Context] = contextvars.Context
        """Makes the context of tasks that belong to no caller; the test kit marks it to find the tasks of one app."""

    @property
    def is_stopping(self) -> bool:
        """Whether the process was told to stop: it begins nothing new."""
        return self.phase is not ShutdownPhase.SERVING

    @property
    def is_closed(self) -> bool:
        """Whether nothing is written here any more."""
        return self.phase is ShutdownPhase.CLOSED

    # -- using agents ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def attach(self, agent: AgentId) -> AsyncIterator[LoadedAgent]:
        """Load the agent and keep it loaded while the block runs.

        Raises:
            AgentStopped: the process shuts down.
            LogError: the store could not load it.
        """
        loaded = await self._find(agent)
        loaded.users += 1
        try:
            yield loaded
        finally:
            loaded.users -= 1
            loaded.used_at = self.clock.now()

    async def hold(self, agent: AgentId) -> Callable[[], None]:
        """Load the agent and keep it loaded until the returned function is called, once or more often."""
        loaded = await self._find(agent)
        loaded.users += 1
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                loaded.users -= 1
                loaded.used_at = self.clock.now()

        return release

    def peek(self, agent: AgentId) -> LoadedAgent | None:
        """Return the agent if it is loaded."""
        return self._loaded.get(self.stored_ids.known(agent))

    def usable(self, agent: AgentId) -> LoadedAgent | None:
        """Return the agent if the caller may use it at once: it is loaded, has started, and has not failed."""
        agent = self.stored_ids.known(agent)
        found = self._loaded.get(agent)
        if found is None or found.actor.tail.closed:  # it may have failed a moment ago
            return None
        if self.ownership is not None and not self.ownership.nodes.is_valid:
            return None
        has_started = agent not in self._loading or agent in _activated.get()  # else for its own code only
        return found if has_started and self._destruction(agent) is None else None

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run something for an agent that is not loaded; it is over when the process has shut down."""
        errand = asyncio.create_task(work, name=name)
        self.keep(errand)
        return errand

    def keep(self, errand: asyncio.Task[Any]) -> None:
        """Wait for a task at shutdown."""
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    def __len__(self) -> int:
        return len(self._loaded)

    @property
    def failing(self) -> int:
        """How many agents could not be written, and wait to be tried again."""
        return len(self._failures)

    @property
    def has_lost_store(self) -> bool:
        """Whether the store takes nothing more until the process is restarted."""
        return self.store.files is not None and self.store.files.lost is not None

    def loaded(self) -> list[LoadedAgent]:
        return list(self._loaded.values())

    async def _find(self, asked: AgentId) -> LoadedAgent:
        loaded = await self._load(await self.stored_ids.find(asked))
        self.stored_ids.remember(asked, loaded.actor.agent)
        return loaded

    async def _load(self, agent: AgentId) -> LoadedAgent:
        while True:
            self._check_open(agent)
            if (busy := self._destruction(agent) or self._rewriting.get(agent)) is not None:
                await asyncio.wait([busy])
                continue
            if (found := self.usable(agent)) is not None:
                return found
            loading = self._loading.get(agent)
            if loading is None:
                # In a context of its own: the agent must not run in the turn of the caller that happened to load it.
                work = self._activate(agent, _activated.get())
                loading = asyncio.create_task(work, name=f"activation of {agent}", context=self.fresh_context())
                self._loading[agent] = loading
                loading.add_done_callback(lambda _: self._loading.pop(agent, None))
            # Shielded: many may wait for one activation, and one of them leaving must not end it for the others.
            try:
                loaded = await asyncio.shield(loading)
            except asyncio.CancelledError:
                if loading.cancelled():
                    self._check_open(agent)  # the shutdown has ended it, not the caller
                raise
            if loaded.is_destroyed:
                raise AgentGone(f"unable to use {agent!r}; it was destroyed as it was loaded. Reconnect and ask again.")
            return loaded

    def _check_open(self, agent: AgentId) -> None:
        if self.is_closed or not self._is_open:
            raise AgentStopped(f"unable to load {agent!r}; the server is stopping. Reconnect in a moment.")
        self.check_lease(agent)

    def check_lease(self, agent: AgentId) -> None:
        """Raise `AgentStopped` if this node has lost its lease."""
        if self.ownership is not None:
            self.ownership.check(agent)

    async def _activate(self, agent: AgentId, loaders: frozenset[AgentId]) -> LoadedAgent:
        _activated.set(loaders | {agent})
        responder = self._responders(agent)
        rules = self.settings.app_rules.applied(agent, responder.rules, self.store)
        activation = await self.store.activate(agent)
        self.wakes.add(activation.wakes)
        state = await restored(agent, activation, self.store)
        if state.is_destroyed:  # by a process that died before it was done with it
            await self._erase(agent, activation.epoch)
            activation = await self.store.activate(agent)
            state = await restored(agent, activation, self.store)
        self._check_open(agent)  # the shutdown has passed: it would not stop an agent that is loaded now

        actor = Actor(
            agent,
            state,
            epoch=activation.epoch,
            head=activation.head,
            clock=self.clock,
            rules=rules,
            schedule=self._commit_loop.schedule,
            last_at=activation.last_at,
        )
        reconciler = Reconciler(
            actor,
            responder,
            self.clock,
            rules,
            phase=lambda: self.phase,
            wake_at=lambda at: self.wakes.remember(agent, at),
            on_commit=lambda: self._failures.clear(agent),  # not after loading: a full disk can still be loaded from
            runs=AgentToolRuns(self, actor, responder, rules.run_patience),
            deadlines=Deadlines(actor, partial(self.destroy, agent, OUTDATED), self.store, self.clock),
        )
        actor.hooks = reconciler
        reconciler.reconcile(state)  # no caller has it yet: the loaded state is the committed one
        now = self.clock.now()
        loaded = LoadedAgent(actor, reconciler, self.store, rules, responder, used_at=now, loaded_at=now)
        self._loaded[agent] = loaded
        loaded.task = asyncio.create_task(actor.run(), name=f"actor of {agent}")
        loaded.task.add_done_callback(lambda task: self._actor_done(loaded, task))
        await reconcile_declared(actor, state, responder, self.clock.now())
        await started(agent, responder)
        if not loaded.is_destroyed:
            reconciler.has_started()
        return loaded

    # -- losing agents ------------------------------------------------------------------------------------------

    def _actor_done(self, loaded: LoadedAgent, task: asyncio.Task[None]) -> None:
        agent = loaded.actor.agent
        if self._loaded.get(agent) is loaded:
            del self._loaded[agent]
            self.stored_ids.forget(agent)
        self._departing.discard(loaded)
        loaded.reconciler.abandon()
        databases = self.store.databases  # its own database is open only while it is loaded
        closed = databases.release(agent) if databases is not None else None
        exc = None if task.cancelled() else task.exception()
        if self.ownership is not None:
            self.ownership.unloaded(agent, closed)
        if exc is None or loaded.is_destroyed:
            return
        for running in loaded.reconciler.tasks:
            running.cancel()  # stale: the turn stays open, and the next owner runs it
        if isinstance(exc, Fenced):
            log.error("%r has another owner now; nothing more is written here", agent)
            return
        log.error("unable to write %r; it is loaded again in %d ms", agent, self._retry_later(agent), exc_info=exc)

    def drop_all(self, why: AgentStopped) -> None:
        """Drop every agent from memory and write nothing more of them; their clients are told why."""
        dropped = list(self._loaded.values())
        self._loaded.clear()
        self.wakes.clear()
        for loaded in dropped:
            self.stored_ids.forget(loaded.actor.agent)
            loaded.actor.halt(why)
            loaded.reconciler.abandon(why)
            for task in loaded.reconciler.tasks:
                task.cancel()
            if loaded.task is not None:
                loaded.task.cancel()  # it may wait for a commit that nothing will come of

    def families(self) -> set[AgentId]:
        """Return the root agents of all agents that are loaded, about to be, or worked on while they are not."""
        return {root_id(agent) for agent in (*self._loaded, *self._loading, *self._destroying, *self._rewriting)}

    async def loaded_again(self, agent: AgentId) -> None:
        """Wait until an agent that was lost to a failing store may be tried again."""
        if self.ownership is not None:
            await self.ownership.until_valid()
        delay = self._failures.delay(self.stored_ids.known(agent))
        if delay:
            await self.clock.sleep_until(Millis(self.clock.now() + delay))
        else:  # not at once: a load that fails without waiting would be tried for ever, and nothing else would run
            await asyncio.sleep(TRY_AGAIN)

    def _retry_later(self, agent: AgentId) -> int:
        """Note one more failure; return in how many milliseconds the agent is loaded again."""
        delay = self._failures.add(agent)
        self.wakes.remember(agent, Millis(self.clock.now() + delay))
        return delay

    async def wake(self, agent: AgentId) -> None:
        """Load an agent that is due, or reconcile it if it is loaded; a failure is tried again later."""
        loaded = self._loaded.get(agent)
        if loaded is not None:
            loaded.reconciler.look_again()
            return
        if self._destruction(agent) is not None:
            return
        try:
            await self._load(agent)
        except AgentStopped:
            return
        except LogError as exc:
            log.error("unable to load %r; trying again in %d ms: %s", agent, self._retry_later(agent), exc)
        except Exception:
            # Its class is gone, or its own code fails: one agent must not keep the others from being woken.
            log.exception("unable to load %r; it is left alone until it is asked for", agent)

    def unload_idle(self) -> None:
        """Unload agents that were not used for a while."""
        now = self.clock.now()
        for agent, loaded in list(self._loaded.items()):
            if loaded.users or loaded.reconciler.tasks or loaded.reconciler.wants_to_run:
                continue
            if loaded.used_at + self.settings.idle_after > now:
                continue
            del self._loaded[agent]  # first, so that a caller that comes now activates it again
            self.stored_ids.forget(agent)
            loaded.actor.stop()
            if loaded.reconciler.wake is not None:
                self.wakes.remember(agent, loaded.reconciler.wake)

    # -- destroying agents ---------------------------------------------------------------------------------------

    async def destroy(self, agent: AgentId, command: DestroyAgent = DestroyAgent()) -> None:  # noqa: B008 - it is frozen
        """Delete the agent, all that it stored and every agent below it; a new agent may use the name afterwards.

        All or nothing: once this is committed, the rest is done before the name can be used again, also after a crash.
        What runs is stopped and writes nothing more, except the calling task, which goes on. Goes on if the caller is
        cancelled.

        Raises:
            LogError: the store could not; it is tried again by itself, if it got as far as to be committed.
        """
        agent = await self.stored_ids.find(agent)
        destroying = self._destruction(agent)
        if destroying is None:
            work = self._destroy(agent, command, asyncio.current_task())
            destroying = asyncio.create_task(work, name=f"end of {agent}", context=self.fresh_context())
            self._destroying[agent] = destroying
            destroying.add_done_callback(lambda _: self._destroying.pop(agent, None))
        await asyncio.shield(destroying)

    def _destruction(self, agent: AgentId) -> asyncio.Task[None] | None:
        """Return the task that destroys this agent, or one above it; None for that task itself."""
        for above, task in self._destroying.items():
            if (agent == above or agent.startswith(children_prefix(above))) and task is not asyncio.current_task():
                return task
        return None

    async def _destroy(self, agent: AgentId, command: DestroyAgent, caller: asyncio.Task[Any] | None) -> None:
        loaded = self._loaded.get(agent) or await self._load(agent)  # it may be destroyed as it starts
        await loaded.actor.insist(command)
        try:
            await self._erase(agent, loaded.actor.epoch, caller)
        except LogError as exc:
            log.error("unable to delete %r; trying again in %d ms: %s", agent, self._retry_later(agent), exc)
            raise

    async def _erase(self, agent: AgentId, epoch: Epoch, caller: asyncio.Task[Any] | None = None) -> None:
        prefix = children_prefix(agent)
        loading = [task for each, task in self._loading.items() if each.startswith(prefix)]
        if loading:
            await asyncio.wait(loading)
        below = [each for each in self._loaded if each.startswith(prefix)]
        for each in (agent, *below):
            if (loaded := self._loaded.pop(each, None)) is not None:
                self._dismiss(loaded, caller)
        gone = [agent, *await self.store.agents(children_prefix(agent))]
        for each in gone:
            if self._forget is not None:
                await self._forget(each)
        await self.list_changes.remember_owner(agent)
        await self.store.destroy(agent, epoch)
        self.list_changes.note(root_id(agent))
        for each in gone:
            self.stored_ids.forget(each)
            self.wakes.forget(each)
            self._failures.clear(each)

    def _dismiss(self, loaded: LoadedAgent, caller: asyncio.Task[Any] | None) -> None:
        """Stop all tasks of an agent except the caller, which may have something to send before the sockets close."""
        loaded.is_destroyed = True
        why = AgentGone(f"unable to use {loaded.actor.agent!r}; it was destroyed. A new agent may now use this name.")
        tasks = loaded.reconciler.tasks
        self._departing.add(loaded)
        loaded.actor.halt(why, caller if caller in tasks else None)
        loaded.reconciler.abandon(why)
        for task in tasks:
            if task is not caller:
                task.cancel()
        if isinstance(loaded.responder, CanBeDestroyed):
            loaded.responder.retire(why)

    # -- rewriting agents ----------------------------------------------------------------------------------------

    async def rewrite(self, agent: AgentId, work: Callable[[Activation], Awaitable[T]]) -> T:
        """Run `work` with the lease of an agent, while it is not loaded and cannot be; then load it again.

        What runs in the agent is interrupted as by a shutdown, and goes on afterwards. Clients are disconnected.
        """
        agent = await self.stored_ids.find(agent)
        while (other := self._rewriting.get(agent)) is not None:
            await asyncio.wait([other])
        doing = self._rewrite(agent, work)
        task = asyncio.create_task(doing, name=f"rewriting of {agent}", context=self.fresh_context())
        self._rewriting[agent] = task
        task.add_done_callback(lambda _: self._rewriting.pop(agent, None))
        return await asyncio.shield(task)

    async def _rewrite(self, agent: AgentId, work: Callable[[Activation], Awaitable[T]]) -> T:
        if (loading := self._loading.get(agent)) is not None:
            await asyncio.wait([loading])
        if (loaded := self._loaded.pop(agent, None)) is not None:
            self.stored_ids.forget(agent)
            await unload(loaded, self.store)
        self._check_open(agent)
        try:
            return await work(await self.store.activate(agent))
        finally:
            self.list_changes.note(root_id(agent))
            self.wakes.remember(agent, self.clock.now())  # it may have been interrupted

    # -- start and shutdown ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store and pick up every agent that has something to do, whether or not a client is there."""
        self.loop = asyncio.get_running_loop()
        await self.store.open()
        await self.settings.app_rules.look(self.store)
        self._is_open = True
        if self.ownership is not None:
            await self.ownership.on_open()
        await self.wakes.start()

    def begin_drain(self) -> None:
        """Begin nothing new from now on; `aclose` does the rest."""
        if self.phase is ShutdownPhase.SERVING:
            self.phase = ShutdownPhase.DRAINING

    async def aclose(self) -> None:
        """Start nothing new, let what runs finish for a while, interrupt the rest, close the store (R-19)."""
        if not self._is_open or self.is_closed or self._is_closing:
            return
        self._is_closing = True
        self.list_changes.close()
        self.begin_drain()
        if self.ownership is not None:
            _ = self.spawn(self.ownership.begin_drain(), "note that this node is stopping")
        await self.wakes.stop()
        await self._drain()
        await self._interrupt()
        if self.ownership is not None:
            await self.ownership.aclose()
        await self.store.aclose()

    async def _drain(self) -> None:
        """Wait until nothing works any more, for as long as the grace period is."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settings.grace
        self._hand_over()
        while (working := self._tasks(lambda reconciler: reconciler.working)) and (left := end - loop.time()) > 0:
            await asyncio.wait(working, timeout=left, return_when=self._until)
            self._hand_over()

    @property
    def _until(self) -> str:
        """Until when a shutdown waits: for everything, or for the next agent that can be handed to another node."""
        return asyncio.ALL_COMPLETED if self.ownership is None else asyncio.FIRST_COMPLETED

    def _hand_over(self) -> None:
        """Let other nodes have the families in which nothing runs, with the clients that watch them."""
        if self.ownership is None:
            return
        busy = {root_id(each.actor.agent) for each in self._loaded.values() if each.reconciler.working}
        why = AgentStopped("unable to go on; this node is stopping. Reconnect: another one continues.")
        for agent, loaded in list(self._loaded.items()):
            if root_id(agent) not in busy and agent not in self._loading:
                del self._loaded[agent]
                self.stored_ids.forget(agent)
                loaded.actor.halt(why)
                loaded.reconciler.abandon(why)

    def _tasks(self, of_reconciler: Callable[[Reconciler], list[asyncio.Task[Any]]]) -> list[asyncio.Task[Any]]:
        here = [*self._loaded.values(), *self._departing]
        tasks: list[asyncio.Task[Any]] = [*self._loading.values(), *self._destroying.values(), *self._errands]
        tasks += self._rewriting.values()
        return [*tasks, *(task for loaded in here for task in of_reconciler(loaded.reconciler))]

    async def _interrupt(self) -> None:
        """End what still runs as if the process had been killed, but for a note that it was not."""
        self.phase = ShutdownPhase.CLOSED
        tasks = self._tasks(lambda reconciler: reconciler.tasks)
        actors = [each.task for each in (*self._loaded.values(), *self._departing) if each.task is not None]
        # Without an await in between: code that sees its sub-agent stop must not record that as an error.
        for loaded in self._loaded.values():
            loaded.reconciler.interrupt()
            loaded.actor.stop()
        for task in tasks:
            task.cancel()
        if tasks or actors:
            await asyncio.wait([*tasks, *actors], timeout=LET_GO)
        for actor in actors:
            actor.cancel()  # the store hangs, or something that was destroyed does not end
        if actors:
            await asyncio.wait(actors, timeout=LET_GO)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _clock_of(store: LogStore) -> Clock:
    return NodeClock(store.nodes) if store.nodes is not None else SystemClock()


def starting_agents() -> frozenset[AgentId]:
    """Return the agents whose start the running code is part of."""
    return _activated.get()


def own_context(directory: Directory, starting: frozenset[AgentId]) -> contextvars.Context:
    """Return a context for code of an agent that another agent's start may wait for."""
    context = directory.fresh_context()
    context.run(_activated.set, starting)
    return context
