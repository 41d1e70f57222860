"""The difference between what should be running and what is, closed after every commit.

`core.wanted` says what should; this says what is. Start, restart after a crash, cancel and shutdown all end here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, Final

import msgspec

from ..core.commands import FinishTurn, InterruptAttempt, MarkHookDone
from ..core.conversation import RunningAnswer, Shown, is_followed, running_answer, stored_messages, with_running
from ..core.state import Rules, State
from ..core.tree import Node
from ..core.turn_state import TurnState
from ..core.wanted import NOW, Wanted, wanted
from ..errors import AgentStopped, LogError
from ..events import AttemptCause, Identity, JobKind, Outcome, to_raw
from ..ids import Attempt, JobId, Millis, NodeId, RequestId, TurnId
from ..messages.message import UIMessage
from ..principals import act_for
from .actor import Actor
from .agent_tool_runs.watching import AgentToolRuns
from .api import Evaluate, Responder, TurnResult
from .clock import Clock
from .fiber_runner import FiberSupervisor
from .job_runner import JobRun
from .mailbox import Envelope
from .phase import Phase
from .recovery import backoff
from .turn_runner import TurnRunner

__all__ = ["Reconciler"]

log = logging.getLogger("everyword.runtime")

LET_GO: Final = 10_000
"""Milliseconds that the code of an ended turn has to let go of what it holds, before it is told to stop once more."""


class Reconciler:
    """What one loaded agent has running: at most one answer, late calls beside it, and response hooks that are due."""

    def __init__(
        self,
        actor: Actor,
        responder: Responder,
        clock: Clock,
        rules: Rules,
        *,
        phase: Callable[[], Phase],
        on_wake: Callable[[Millis], None],
        runs: AgentToolRuns,
    ) -> None:
        self._has_started, self._is_waited_for = False, False
        """Whether the agent's own code has started, which jobs and fibers may count on; and whether any wait for it."""
        self.wake: Millis | None = None
        self._timer: Millis | None = None
        """When the timekeeper was last told to look here again."""
        self.evaluations: dict[RequestId, Evaluate] = {}
        """Functions of deferred turns; they live as long as this process."""
        self._actor, self._responder, self._clock, self._rules = actor, responder, clock, rules
        self._phase, self._on_wake = phase, on_wake
        self._runners: dict[asyncio.Task[None], TurnRunner] = {}
        self._hooks: dict[TurnId, asyncio.Task[None]] = {}
        self.jobs: dict[JobId, JobRun] = {}
        """The jobs that run here."""
        self._broken: dict[JobId, int] = {}
        """How often a run of a job broke in our own code, one after the other."""
        self.fibers = FiberSupervisor(actor, responder, clock)
        self.runs = runs
        runs.look_again = self.look_again
        self._errands: set[asyncio.Task[None]] = set()
        self._waits: set[asyncio.Task[None]] = set()
        """Errands that do nothing but wait."""
        self._inherited: set[TurnId] | None = None
        """Turns that an earlier process began or ended; known from the first look at the state."""
        self._failed_as: dict[TurnId, AttemptCause] = {}
        """Turns to be tried again, and what ended the attempt before."""
        self._stopped: set[TurnId] = set()
        """Turns that were told to stop and have not ended."""
        self._awaited: dict[TurnId, list[asyncio.Future[TurnResult]]] = {}
        self.last_turn = TurnId(0)
        self._shown: Sequence[tuple[NodeId, Node]] = ()
        self._path: Sequence[NodeId] = ()
        self._transcript: list[Shown] | None = []
        self._running: RunningAnswer | None = None
        """The answer that is being written, as far as it is committed, while something stands behind it."""
        self.value: bytes | None = None
        """The agent's committed state, as JSON."""
        self._revision = -1

    @property
    def shown(self) -> list[Shown]:
        """The stored messages of the committed conversation; readable between two commits."""
        if self._transcript is None:
            self._transcript = stored_messages(self._shown)
        return self._transcript

    @property
    def conversation(self) -> list[Shown]:
        """The committed conversation as clients are shown it, with the answer that is being written at its place."""
        return with_running(self.shown, self._path, self._running)

    def is_followed(self, node: NodeId) -> bool:
        """Tell whether a message stands behind a place of the branch that is shown."""
        return is_followed(self._path, self._shown[-1][0] if self._shown else None, node)

    def shows(self, node: NodeId) -> bool:
        """Tell whether a node lies on the branch that is shown, with a message or without."""
        return self._path[-1:] == (node,) or node in self._path

    @property
    def wants_to_run(self) -> bool:
        """Whether the state calls for work now: not a moment to unload the agent."""
        return self.wake == NOW

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Everything that runs here, for whoever shuts it down."""
        jobs = [run.task for run in self.jobs.values()]
        return [*self._runners, *self._hooks.values(), *jobs, *self.fibers.tasks, *self.runs.tasks, *self._errands]

    @property
    def working(self) -> list[asyncio.Task[Any]]:
        """The tasks that a shutdown waits for: all but turns before their next attempt, and code that only waits."""
        paused = {task for task, runner in self._runners.items() if runner.is_paused} | self._waits
        return [task for task in self.tasks if task not in paused]

    def reconcile(self, state: State, work: Wanted | None = None) -> None:
        """Start and stop what the committed state calls for; called by the actor right after each commit."""
        if state.is_destroyed:
            return  # whoever destroys it stops what runs
        if work is None:
            work = wanted(state, self._clock.now())
        timer = work.later if work.wake == NOW else work.wake
        if timer != self._timer and timer is not None:
            self._on_wake(timer)
        self.wake, self._timer = work.wake, timer
        self.last_turn = state.last_turn
        self.value = state.value
        if state.tree.revision != self._revision:
            self._revision, self._transcript = state.tree.revision, None
            self._path, self._shown = state.tree.active_path(), state.tree.shown_path()
        self._keep_running(state)
        self._tell_ends(state)
        if self._inherited is None:
            self._inherited = {*state.open, *work.hooks}
        self._retire(state)
        self._stopped.intersection_update(state.open)
        self.fibers.retire(work.fibers)
        for turn in work.stop:
            self._stop(state.open[turn])
        phase = self._phase()
        for wanted_turn in (work.run, work.calls):
            if wanted_turn is not None and not self._is_running(wanted_turn):
                self._start(state.open[wanted_turn])
        for turn in work.hooks:
            if turn not in self._hooks and phase is not Phase.CLOSED:
                self._call_hook(state, turn)
        self._is_waited_for = not self._has_started and bool(work.jobs or work.fibers)
        if phase is Phase.SERVING and self._has_started:
            for job in work.jobs:
                if job not in self.jobs:
                    self._run_job(job, state.jobs[job].added.kind)
            self.fibers.hand_back(work.fibers)
        self.runs.reconcile(state, work, may_start=phase is not Phase.CLOSED)

    def _keep_running(self, state: State) -> None:
        """Note how far the answer is that is being written, after every commit for as long as that is shown.

        The actor's state may be ahead of the log when somebody asks, and nothing may be seen before it is committed.
        """
        self._running = running_answer(state)
        current = state.current
        is_needed = current is not None and not current.is_continuation and self.is_followed(current.node)
        self._actor.on_commit = self._keep_running if is_needed else None

    def _may_begin(self, turn: TurnState) -> bool:
        """Tell whether a turn may begin in this process.

        While it drains: what our own code may be waiting for, and what began with a commit that was under way.
        """
        phase, is_begun = self._phase(), self._actor.begun == turn.id
        return phase is Phase.SERVING or (phase is Phase.DRAINING and (turn.accepted.trusted or is_begun))

    def interrupt(self) -> None:
        """Record that a shutdown interrupts what runs here: the last that this process writes of it."""
        with suppress(AgentStopped):  # the actor has failed: the next process counts it as a crash
            if self._actor.begun is not None:  # with the commit that is under way: it has no runner yet
                self._actor.force(Envelope(InterruptAttempt(self._actor.begun, Attempt(1))))
            for runner in self._runners.values():
                if runner.attempt is not None:
                    self._actor.force(Envelope(InterruptAttempt(runner.turn, runner.attempt)))
            for run in self.jobs.values():
                run.interrupt()
            self.fibers.interrupt()

    def _run_job(self, job: JobId, kind: JobKind) -> None:
        if kind == "queue" and any(run.is_cancelled and run.kind == kind for run in self.jobs.values()):
            return  # one after the other: what was cancelled has to let go first
        run = self.jobs[job] = JobRun(self._actor, self._responder, job, kind, self._clock)
        run.task.add_done_callback(lambda task: self._job_done(run, task))

    def _job_done(self, run: JobRun, task: asyncio.Task[None]) -> None:
        del self.jobs[run.job]
        exc = None if task.cancelled() else task.exception()
        if exc is not None and not isinstance(exc, AgentStopped | LogError):
            log.error("job %s of %r broke; it is looked at again", run.job, self._actor.agent, exc_info=exc)
            self._broken[run.job] = self._broken.get(run.job, 0) + 1
            self._look_at(Millis(self._clock.now() + backoff(self._broken[run.job] + 1)))
        elif run.is_cancelled or not (task.cancelled() or exc):
            self._broken.pop(run.job, None)
            self.look_again()  # what waited behind it

    def _look_at(self, at: Millis) -> None:
        """Look again at a time that the state knows nothing of."""
        if self._timer is None or at < self._timer:
            self._timer = at
            self._on_wake(at)

    def ending(self, state: State, turn: TurnId) -> asyncio.Future[TurnResult]:
        """Return a future of how the turn ends; call it from an query, with the committed state."""
        future: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(turn, []).append(future)
        self._tell_ends(state)
        return future

    def _tell_ends(self, state: State) -> None:
        for turn in [turn for turn in self._awaited if turn in state.ended]:
            result = _result(self._actor, state, state.ended[turn], recovered=False)
            for future in self._awaited.pop(turn):
                if not future.done():
                    future.set_result(result)

    def abandon(self, why: AgentStopped | None = None) -> None:
        """Tell whoever waits for an end that this owner will not see it."""
        told = why or AgentStopped("unable to wait for the turn here; the agent was unloaded")
        for futures in self._awaited.values():
            for future in futures:
                if not future.done():
                    future.set_exception(told)
        self._awaited.clear()
        self.runs.abandon(told)

    def _is_running(self, turn: TurnId) -> bool:
        return any(runner.turn == turn for runner in self._runners.values())

    def _retire(self, state: State) -> None:
        """Stop runners whose turn has ended without them: it was cleared, or cancelled."""
        for task, runner in self._runners.items():
            if runner.turn not in state.open and not runner.is_finishing:
                self._tell_to_stop(task, runner)
        for job, run in self.jobs.items():
            if job not in state.jobs and not run.is_ending:
                run.cancel()

    def begins(self, state: State, work: Wanted) -> TurnId | None:
        """Return the turn that can begin at once, as part of the commit that lets it: a question's first attempt."""
        turn = state.open.get(work.run) if work.run is not None else None
        if turn is None or not self._may_begin(turn):
            return None
        if turn.attempt or turn.is_continuation or turn.accepted.deferred or self._is_running(turn.id):
            return None
        return turn.id if self._inherited is not None and turn.id not in self._inherited else None

    def _start(self, accepted: TurnState) -> None:
        if not self._may_begin(accepted):
            return
        turn = accepted.id
        has_failed = turn in self._failed_as
        cause = self._failed_as.pop(turn, "retry")
        if self._inherited and turn in self._inherited:
            self._inherited.discard(turn)
            cause = "crash"
        runner = TurnRunner(
            self._actor,
            turn,
            self._responder,
            cause=cause,
            evaluate=self.evaluations.pop(accepted.request, None),
            clock=self._clock,
            rules=self._rules,
            has_failed=has_failed,
            heard=self.runs.last_word,
            principal=accepted.accepted.principal,
            has_begun=self._actor.take_begun(turn),
        )
        task = asyncio.create_task(runner.run(), name=f"turn {turn} of {self._actor.agent}")
        self._runners[task] = runner
        task.add_done_callback(self._runner_done)

    def _runner_done(self, task: asyncio.Task[None]) -> None:
        runner = self._runners.pop(task)
        if task.cancelled():
            if not runner.is_told and self._phase() is Phase.SERVING:
                self.look_again()  # the answer's own code cancelled it: that is a failed attempt
            return
        exc = task.exception()
        if exc is None and runner.retry_as is not None:
            self._failed_as[runner.turn] = runner.retry_as
            self.look_again()
            return
        if exc is None and runner.is_put_off:
            self.look_again()  # the calls that come first may have ended already
            return
        if isinstance(exc, AgentStopped | LogError) or exc is None:
            return  # the actor is gone: whoever loads the agent next goes on
        log.error("turn %d of %r: its runner broke", runner.turn, self._actor.agent, exc_info=exc)
        self.look_again()

    def has_started(self) -> None:
        """Note that the agent's own code has started, and begin with what has waited for it."""
        self._has_started = True
        if self._is_waited_for:
            self.look_again()

    def look_again(self) -> None:
        """Reconcile once more, though nothing was committed: a timer ran out, or a runner broke."""
        self.spawn(self._look_again(), f"second look at {self._actor.agent}")

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something of the agent's own beside everything else; it is over when the agent is unloaded."""
        self.begin(work, name)  # type: ignore[unused-awaitable]

    def begin(
        self, work: Coroutine[Any, Any, None], name: str, *, context: Context | None = None, is_wait: bool = False
    ) -> asyncio.Task[None]:
        """Do so in a context of its own; a shutdown does not wait for what `is_wait`."""
        errand = asyncio.create_task(work, name=name, context=context)
        kept = (self._errands, self._waits) if is_wait else (self._errands,)
        for tasks in kept:
            tasks.add(errand)
            errand.add_done_callback(tasks.discard)
        return errand

    async def _look_again(self) -> None:
        with suppress(AgentStopped):  # unloaded meanwhile: the wake table brings it back
            await self._actor.inspect(self.reconcile)

    def _stop(self, turn: TurnState) -> None:
        """Stop a turn at once: tell its runner, and end it whether or not the runner listens."""
        if turn.id in self._stopped:
            return
        self._stopped.add(turn.id)
        usage: Any = None
        for task, runner in self._runners.items():
            if runner.turn == turn.id:
                usage = runner.usage
                self._tell_to_stop(task, runner)
        end = FinishTurn(turn.id, Attempt(turn.attempt), Outcome.ABORTED, reason="cancelled", usage=to_raw(usage))
        with suppress(AgentStopped):  # the process stops as well: the next one ends the turn, by the log
            self._actor.force(Envelope(end))

    def _tell_to_stop(self, task: asyncio.Task[None], runner: TurnRunner) -> None:
        """Cancel a runner once: a second time would cut off what its `finally` awaits, so that comes much later."""
        now = self._clock.now()
        if runner.told_at is None or now - runner.told_at >= LET_GO:
            runner.told_at = now
            runner.cancel()
            task.cancel()

    # -- the response hook (R-28) -------------------------------------------------------------------------

    def _call_hook(self, state: State, turn: TurnId) -> None:
        result = _result(self._actor, state, state.ended[turn], recovered=turn in (self._inherited or ()))
        principal = state.ended[turn].accepted.principal
        task = asyncio.create_task(self._run_hook(turn, result, principal), name=f"response hook of turn {turn}")
        self._hooks[turn] = task
        task.add_done_callback(lambda _: self._hooks.pop(turn, None))

    async def _run_hook(self, turn: TurnId, result: TurnResult, principal: Identity | None) -> None:
        act_for(principal)
        try:
            await self._responder.on_response(result)
        except Exception:
            log.exception("on_chat_response of %r raised for turn %d", self._actor.agent, turn)
        try:
            await self._actor.insist(MarkHookDone(turn))
        except (AgentStopped, LogError):
            log.info("the response hook of turn %d will be called again", turn)


def _result(actor: Actor, state: State, turn: TurnState, *, recovered: bool) -> TurnResult:
    assert turn.outcome is not None
    node = state.tree.nodes.get(turn.node)
    body = node.body if node is not None else None
    return TurnResult(
        agent=actor.agent,
        turn=turn.id,
        request=turn.request,
        outcome=turn.outcome,
        error=turn.error,
        message=UIMessage.decode(body) if body is not None else None,
        is_continuation=turn.is_continuation,
        reason=turn.reason,
        recovered=recovered,
        usage=msgspec.json.decode(turn.usage) if turn.usage is not None else None,
    )
