"""Which agents are loaded: activated on demand, woken by time, picked up after a crash, unloaded when idle.

One process owns its agents. Everything that runs is owned here and is over when `aclose` returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import msgspec

from ..core.restore import restore
from ..core.state import Rules, State
from ..errors import AgentStopped, Fenced, LogError
from ..events import Event, decode_event
from ..ids import AgentId, Millis, Seq
from ..log.base import Activation, LogStore
from .actor import Actor
from .agency import Agency
from .api import Responder, Starter
from .clock import Clock, SystemClock
from .subscription import Subscription
from .timekeeper import Timekeeper

__all__ = ["Directory", "Loaded", "Settings"]

log = logging.getLogger("holdfast.runtime")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a directory behaves; times in milliseconds."""

    idle_after: int = 60_000
    """An agent that nobody uses for so long is unloaded."""
    retention: int = 24 * 60 * 60 * 1000
    """How long the chunks of ended turns are kept."""
    retention_every: int = 60_000
    retry_after: int = 1_000
    """How soon an agent whose append failed is loaded again; doubles up to `retry_at_most`."""
    retry_at_most: int = 30_000
    grace: float = 10.0
    """Seconds that running turns have to finish at shutdown."""


@dataclass(slots=True, eq=False)
class Loaded:
    """An agent in memory: its actor, what it runs, and who uses it."""

    actor: Actor
    agency: Agency
    store: LogStore
    rules: Rules
    responder: Responder
    users: int = 0
    used_at: Millis = Millis(0)
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def subscribe(self, cursor: Seq | None = None) -> Subscription:
        """Read the agent's log after `cursor`, or from now on."""
        return Subscription(self.actor.agent, self.actor.tail, self.store, cursor)


class Directory:
    """An async context manager: entering opens the store and picks up what was left open, leaving shuts down (R-19)."""

    def __init__(
        self,
        store: LogStore,
        responders: Callable[[AgentId], Responder],
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.store, self.clock = store, clock if clock is not None else SystemClock()
        self.settings = settings if settings is not None else Settings()
        self.is_stopping = False
        self._responders = responders
        self._loaded: dict[AgentId, Loaded] = {}
        self._loading: dict[AgentId, asyncio.Task[Loaded]] = {}
        self._failures: dict[AgentId, int] = {}
        self._time = Timekeeper(self)
        self._is_open = False

    # -- using agents ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def attach(self, agent: AgentId) -> AsyncIterator[Loaded]:
        """Load the agent and keep it loaded while the block runs.

        Raises:
            AgentStopped: the process shuts down.
            LogError: the store could not load it.
        """
        loaded = await self._load(agent)
        loaded.users += 1
        try:
            yield loaded
        finally:
            loaded.users -= 1
            loaded.used_at = self.clock.now()

    def peek(self, agent: AgentId) -> Loaded | None:
        """Return the agent if it is loaded."""
        return self._loaded.get(agent)

    def __len__(self) -> int:
        return len(self._loaded)

    def loaded(self) -> list[Loaded]:
        return list(self._loaded.values())

    async def _load(self, agent: AgentId) -> Loaded:
        while True:
            if self.is_stopping or not self._is_open:
                raise AgentStopped(f"unable to load {agent!r}; the server is stopping. Reconnect in a moment.")
            found = self._loaded.get(agent)
            if found is not None and not found.actor.tail.closed:  # it may have failed a moment ago
                return found
            loading = self._loading.get(agent)
            if loading is None:
                loading = asyncio.create_task(self._activate(agent), name=f"activation of {agent}")
                self._loading[agent] = loading
                loading.add_done_callback(lambda _: self._loading.pop(agent, None))
            # Shielded: many may wait for one activation, and one of them leaving must not end it for the others.
            return await asyncio.shield(loading)

    async def _activate(self, agent: AgentId) -> Loaded:
        responder = self._responders(agent)
        rules = responder.rules
        activation = await self.store.activate(agent)
        state = _restored(agent, activation)

        def changed(state: State) -> None:
            self._failures.pop(agent, None)  # only now: a full disk can still be loaded from
            agency.reconcile(state)

        actor = Actor(
            agent,
            state,
            epoch=activation.epoch,
            head=activation.head,
            store=self.store,
            clock=self.clock,
            rules=rules,
            on_change=changed,
        )
        agency = Agency(
            actor,
            responder,
            self.clock,
            rules,
            may_start=lambda: not self.is_stopping,
            on_wake=lambda at: self._time.remember(agent, at),
        )
        loaded = Loaded(actor, agency, self.store, rules, responder, used_at=self.clock.now())
        self._loaded[agent] = loaded
        loaded.task = asyncio.create_task(actor.run(), name=f"actor of {agent}")
        loaded.task.add_done_callback(lambda task: self._actor_done(loaded, task))
        await actor.inspect(agency.reconcile)
        await _started(agent, responder)
        return loaded

    # -- losing agents ------------------------------------------------------------------------------------------

    def _actor_done(self, loaded: Loaded, task: asyncio.Task[None]) -> None:
        agent = loaded.actor.agent
        if self._loaded.get(agent) is loaded:
            del self._loaded[agent]
        loaded.agency.abandon()
        exc = None if task.cancelled() else task.exception()
        if exc is None:
            return
        for running in loaded.agency.tasks:
            running.cancel()  # stale: the turn stays open, and the next owner runs it
        if isinstance(exc, Fenced):
            log.error("%r has another owner now; nothing more is written here", agent)
            return
        log.error("unable to write %r; it is loaded again in %d ms", agent, self._retry_later(agent), exc_info=exc)

    async def loaded_again(self, agent: AgentId) -> None:
        """Wait until an agent that was lost to a failing store may be tried again."""
        failures = self._failures.get(agent, 0)
        if failures:
            await self.clock.sleep_until(Millis(self.clock.now() + self._delay(failures)))

    def _delay(self, failures: int) -> int:
        return int(min(self.settings.retry_after * 2 ** (failures - 1), self.settings.retry_at_most))

    def _retry_later(self, agent: AgentId) -> int:
        """Note one more failure; return in how many milliseconds the agent is loaded again."""
        failures = self._failures[agent] = self._failures.get(agent, 0) + 1
        delay = self._delay(failures)
        self._time.remember(agent, Millis(self.clock.now() + delay))
        return delay

    async def wake(self, agent: AgentId) -> None:
        """Load an agent whose time has come, or let a loaded one look again; a failure is tried again later."""
        loaded = self._loaded.get(agent)
        if loaded is not None:
            loaded.agency.look_again()
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
        """Unload what nobody has used for a while."""
        now = self.clock.now()
        for agent, loaded in list(self._loaded.items()):
            if loaded.users or loaded.agency.tasks or loaded.agency.wants_to_run:
                continue
            if loaded.used_at + self.settings.idle_after > now:
                continue
            del self._loaded[agent]  # first, so that whoever comes now activates it anew
            loaded.actor.stop()
            if loaded.agency.wake is not None:
                self._time.remember(agent, loaded.agency.wake)

    # -- start and shutdown ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store and pick up every agent that has something to do, whether or not a client is there."""
        await self.store.open()
        self._is_open = True
        await self._time.start()

    async def aclose(self) -> None:
        """Stop starting turns, let running ones finish for a while, leave the rest open, let go of the store."""
        if not self._is_open or self.is_stopping:
            return
        self.is_stopping = True
        await self._time.stop()
        if self._loading:
            await asyncio.wait(list(self._loading.values()))
        runners = [task for loaded in self._loaded.values() for task in loaded.agency.runners]
        if runners and self.settings.grace > 0:
            await asyncio.wait(runners, timeout=self.settings.grace)
        tasks = [task for loaded in self._loaded.values() for task in loaded.agency.tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        actors = [loaded.task for loaded in self._loaded.values() if loaded.task is not None]
        for loaded in list(self._loaded.values()):
            loaded.actor.stop()
        if actors:
            await asyncio.wait(actors)
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _started(agent: AgentId, responder: Responder) -> None:
    """Let the agent's own code know that it was loaded, before anybody uses it."""
    if not isinstance(responder, Starter):
        return
    try:
        await responder.on_start()
    except Exception:
        log.exception("on_start of %r raised; it is used all the same", agent)


def _restored(agent: AgentId, activation: Activation) -> State:
    """Fold an activation into a state; what cannot be read is reported and left out."""
    streamed: list[tuple[Millis, Event]] = []
    for stored in activation.chunks:
        try:
            streamed.append((stored.at, decode_event(stored.body)))
        except msgspec.DecodeError as exc:
            log.error("unable to read event %d of %r; it is skipped: %s", stored.seq, agent, exc)
    state, problems = restore(activation.agent, activation.turns, activation.messages, streamed, activation.kept)
    for problem in problems:
        log.error("%r: %s", agent, problem)
    return state
