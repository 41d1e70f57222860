"""The reconciler: after every commit, start what should be running and stop what should not.

`core.wanted` says what should be running, from the committed state alone. Start, restart after a crash, cancel and
shutdown are all the same question, asked here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, Final

from ..core.state import Rules, State
from ..core.wanted import NOW, Wanted, wanted
from ..errors import AgentStopped
from ..ids import Millis, TurnId
from .actor import Actor
from .agent_tool_runs.watching import AgentToolRuns
from .api import Responder
from .clock import Clock
from .committed_view import CommittedView
from .deadlines import Deadlines
from .fiber_runner import FiberSupervisor
from .job_runner import JobSupervisor
from .phase import ShutdownPhase
from .response_hooks import ResponseHooks
from .turn_results import TurnWaiters
from .turn_supervisor import TurnSupervisor

__all__ = ["Reconciler"]

NEAR: Final = 10_000
"""Milliseconds: an agent that is to be looked at again sooner than this waits by itself. A later time goes to the wake
scheduler, which needs no task per agent."""


class Reconciler:
    """What one loaded agent has running. One object per kind of work; this one decides when each looks at the state."""

    def __init__(
        self,
        actor: Actor,
        responder: Responder,
        clock: Clock,
        rules: Rules,
        *,
        phase: Callable[[], ShutdownPhase],
        wake_at: Callable[[Millis], None],
        on_commit: Callable[[], None],
        runs: AgentToolRuns,
        deadlines: Deadlines,
    ) -> None:
        self._actor, self._clock, self._phase, self._on_commit = actor, clock, phase, on_commit
        self.view, self.waiters = CommittedView(), TurnWaiters(actor.agent)
        self.turns = TurnSupervisor(
            actor,
            responder,
            clock,
            rules,
            phase=phase,
            last_word_of_runs=runs.last_word,
            look_again=self.look_again,
        )
        self.hooks = ResponseHooks(actor, responder)
        self.jobs = JobSupervisor(actor, responder, clock, look_at=self._look_at, look_again=self.look_again)
        self.fibers = FiberSupervisor(actor, responder, clock)
        self.runs, self._deadlines = runs, deadlines
        runs.look_again, deadlines.look_at = self.look_again, self._look_at
        self._errands = _Errands()
        self._timer = _Timer(clock, self._look, wake_at)
        self.wake: Millis | None = None
        """When the agent has to be loaded again, if it is unloaded now."""
        self._has_started = False
        """True once the agent's own code has started, which jobs and fibers may count on."""
        self._is_start_awaited = False
        """True while jobs, fibers or deadlines wait for that."""

    # -- the actor's hooks -----------------------------------------------------------------------------------

    def begins(self, state: State, work: Wanted) -> TurnId | None:
        return self.turns.begins(state, work)

    def changed(self, state: State, work: Wanted) -> None:
        self._on_commit()
        self.reconcile(state, work)

    def streamed(self, state: State) -> None:
        if self.view.has_answer_to_follow:
            self.view.update_answer(state)

    # -- reconciling -----------------------------------------------------------------------------------------

    def reconcile(self, state: State, work: Wanted | None = None) -> None:
        """Start and stop what the committed state calls for."""
        if state.is_destroyed:
            return  # what destroys the agent also stops what runs
        if work is None:
            work = wanted(state, self._clock.now())
        self.wake = work.wake
        self._timer.set(work.later if work.wake == NOW else work.wake)
        self.view.update(state)
        self.waiters.update(state)
        self.jobs.retire(state.jobs)
        self.fibers.retire(work.fibers)
        self.turns.reconcile(state, work)
        phase = self._phase()
        if phase is not ShutdownPhase.CLOSED:
            for turn in work.hooks:
                self.hooks.call(state, turn, recovered=self.turns.is_inherited(turn))
        is_due = bool(work.jobs or work.fibers or work.expired or work.is_outdated)
        self._is_start_awaited = not self._has_started and is_due
        if phase is ShutdownPhase.SERVING and self._has_started:
            self._deadlines.keep(work, self.spawn)
            self.jobs.start(work.jobs, state.jobs)
            self.fibers.hand_back(work.fibers)
        self.runs.reconcile(state, work, may_start=phase is not ShutdownPhase.CLOSED)

    def has_started(self) -> None:
        """Note that the agent's own code has started, and begin with what has waited for it."""
        self._has_started = True
        if self._is_start_awaited:
            self.look_again()

    def look_again(self) -> None:
        """Reconcile once more, though nothing was committed: a timer ran out, or a runner broke."""
        self.spawn(self._look(), f"second look at {self._actor.agent}")

    async def _look(self) -> None:
        with suppress(AgentStopped):  # unloaded meanwhile: the wake table brings it back
            await self._actor.inspect(self.reconcile)

    def _look_at(self, at: Millis) -> None:
        """Reconcile at a time that the state knows nothing of."""
        self._timer.set_earlier(at)

    # -- tasks -----------------------------------------------------------------------------------------------

    @property
    def wants_to_run(self) -> bool:
        """True when the state calls for work now: not a moment to unload the agent."""
        return self.wake == NOW

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Everything that runs here, to be stopped with the agent."""
        tasks: list[asyncio.Task[Any]] = [*self.turns.tasks, *self.hooks.tasks, *self.jobs.tasks]
        return [*tasks, *self.fibers.tasks, *self.runs.tasks, *self._errands.tasks]

    @property
    def working(self) -> list[asyncio.Task[Any]]:
        """The tasks that a shutdown waits for: all but turns before their next attempt, and code that only waits."""
        idle = self.turns.paused_tasks | self._errands.waits
        return [task for task in self.tasks if task not in idle]

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine of the agent's own beside everything else; it ends when the agent is unloaded."""
        self.begin(work, name)  # type: ignore[unused-awaitable]

    def begin(
        self, work: Coroutine[Any, Any, None], name: str, *, context: Context | None = None, is_wait: bool = False
    ) -> asyncio.Task[None]:
        """As `spawn`, in a context of its own; a shutdown does not wait for code that only waits (`is_wait`)."""
        return self._errands.begin(work, name, context, is_wait=is_wait)

    def interrupt(self) -> None:
        """Record that a shutdown interrupts what runs here: the last that this process writes of it."""
        with suppress(AgentStopped):  # the actor has failed: the next process counts it as a crash
            self.turns.interrupt()
            self.jobs.interrupt()
            self.fibers.interrupt()

    def abandon(self, why: AgentStopped | None = None) -> None:
        """Raise in every caller that waits for an end: this process will not see it."""
        self._timer.close()
        told = why or AgentStopped("unable to wait for the turn here; the agent was unloaded")
        self.waiters.abandon(told)
        self.runs.abandon(told)


class _Errands:
    """Tasks of the agent's own code that are neither turns nor jobs nor fibers."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.waits: set[asyncio.Task[None]] = set()
        """Those of them that do nothing but wait."""

    def begin(
        self, work: Coroutine[Any, Any, None], name: str, context: Context | None, *, is_wait: bool
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name, context=context)
        for tasks in (self.tasks, self.waits) if is_wait else (self.tasks,):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        return task


class _Timer:
    """When a loaded agent is to be looked at again: soon, by a task of its own; later, by the wake scheduler."""

    def __init__(
        self, clock: Clock, look: Callable[[], Coroutine[Any, Any, None]], wake_at: Callable[[Millis], None]
    ) -> None:
        self._clock, self._look, self._wake_at = clock, look, wake_at
        self._at: Millis | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def set(self, at: Millis | None) -> None:
        """Look at this time, and not when the timer was last set to; None for never."""
        if at == self._at or self._is_closed:
            return
        self._cancel()
        self._at = at
        if at is None:
            return
        if at - self._clock.now() > NEAR:
            self._wake_at(at)
        else:
            self._task = asyncio.create_task(self._wait(at), name="timer of an agent")

    def set_earlier(self, at: Millis) -> None:
        """Look at this time, unless the timer is set to an earlier one."""
        if self._at is None or at < self._at:
            self.set(at)

    def close(self) -> None:
        """Never look again: the agent is unloaded or gone."""
        self._is_closed = True
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = None

    async def _wait(self, at: Millis) -> None:
        await self._clock.sleep_until(at)
        await self._look()
