"""Starting and stopping the runners of turns: at most one answer of an agent at a time, and late calls beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from typing import Any, Final

from ..core.commands import FinishTurn, InterruptAttempt
from ..core.state import Rules, State
from ..core.turn_state import TurnState
from ..core.wanted import Wanted
from ..errors import AgentStopped, LogError, Rejected
from ..events import AttemptCause, Outcome, to_raw
from ..ids import Attempt, Millis, RequestId, TurnId
from .actor import Actor
from .answer_files import end_turn, may_store_files
from .api import Evaluate, Responder
from .clock import Clock
from .mailbox import Envelope
from .phase import ShutdownPhase
from .turn_runner import TurnRunner, TurnStart

__all__ = ["TurnSupervisor"]

log = logging.getLogger("everyword.runtime")

LET_GO: Final = 10_000
"""Milliseconds that the code of an ended turn has to clean up, before it is cancelled once more."""


class TurnSupervisor:
    """The turns of one loaded agent that run in this process."""

    def __init__(
        self,
        actor: Actor,
        responder: Responder,
        clock: Clock,
        rules: Rules,
        *,
        phase: Callable[[], ShutdownPhase],
        last_word_of_runs: Callable[[TurnId], Awaitable[Millis | None]],
        look_again: Callable[[], None],
    ) -> None:
        self._actor, self._responder, self._clock, self._rules = actor, responder, clock, rules
        self._phase, self._last_word_of_runs, self._look_again = phase, last_word_of_runs, look_again
        self.evaluations: dict[RequestId, Evaluate] = {}
        """Functions that give deferred turns their messages; they live as long as this process."""
        self._runners: dict[asyncio.Task[None], TurnRunner] = {}
        self._inherited: set[TurnId] | None = None
        """Turns that an earlier process began or ended; known from the first look at the state."""
        self._failed_as: dict[TurnId, AttemptCause] = {}
        """Turns to be tried again, and what ended the attempt before."""
        self._stopped: set[TurnId] = set()
        """Turns that were told to stop and have not ended."""
        self._ends: set[asyncio.Task[None]] = set()
        """Ends of stopped turns whose files are being stored."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return list(self._runners)

    @property
    def paused_tasks(self) -> set[asyncio.Task[None]]:
        """Turns that wait before their next attempt: a shutdown need not wait for these."""
        return {task for task, runner in self._runners.items() if runner.is_paused}

    def reconcile(self, state: State, work: Wanted) -> None:
        """Stop and start runners as the committed state calls for."""
        if self._inherited is None:
            self._inherited = {*state.open, *work.hooks}
        self._retire(state.open)
        self._stopped.intersection_update(state.open)
        for turn in work.stop:
            self._stop(state.open[turn])
        for wanted_turn in (work.run, work.calls):
            if wanted_turn is not None and not self._is_running(wanted_turn):
                self._start(state.open[wanted_turn])

    def is_inherited(self, turn: TurnId) -> bool:
        """Tell whether an earlier process began or ended the turn."""
        return self._inherited is not None and turn in self._inherited

    def begins(self, state: State, work: Wanted) -> TurnId | None:
        """Return the turn that can begin at once, as part of the commit that lets it: a question's first attempt."""
        turn = state.open.get(work.run) if work.run is not None else None
        if turn is None or not self._may_begin(turn):
            return None
        if turn.attempt or turn.is_continuation or turn.accepted.deferred or self._is_running(turn.id):
            return None
        return turn.id if self._inherited is not None and turn.id not in self._inherited else None

    def interrupt(self) -> None:
        """Record that a shutdown interrupts the attempts that run: the last that this process writes of them."""
        if self._actor.begun is not None:  # with the commit that is under way: it has no runner yet
            self._actor.force(Envelope(InterruptAttempt(self._actor.begun, Attempt(1))))
        for runner in self._runners.values():
            if runner.attempt is not None:
                self._actor.force(Envelope(InterruptAttempt(runner.turn, runner.attempt)))

    # -- starting ------------------------------------------------------------------------------------------

    def _may_begin(self, turn: TurnState) -> bool:
        """Tell whether a turn may begin in this process.

        While the process drains: a turn that our own code may be waiting for, and one that began with a commit that
        was under way.
        """
        phase, is_begun = self._phase(), self._actor.begun == turn.id
        return phase is ShutdownPhase.SERVING or (
            phase is ShutdownPhase.DRAINING and (turn.accepted.trusted or is_begun)
        )

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
            start=TurnStart(
                cause,
                evaluate=self.evaluations.pop(accepted.request, None),
                has_failed=has_failed,
                has_begun=self._actor.take_begun(turn),
                last_word_of_runs=self._last_word_of_runs,
                principal=accepted.accepted.principal,
            ),
            clock=self._clock,
            rules=self._rules,
        )
        task = asyncio.create_task(runner.run(), name=f"turn {turn} of {self._actor.agent}")
        self._runners[task] = runner
        task.add_done_callback(self._runner_done)

    def _is_running(self, turn: TurnId) -> bool:
        return any(runner.turn == turn for runner in self._runners.values())

    # -- stopping ------------------------------------------------------------------------------------------

    def _retire(self, open_turns: Container[TurnId]) -> None:
        """Cancel runners whose turn has ended without them: it was cleared, or cancelled."""
        for task, runner in self._runners.items():
            if runner.turn not in open_turns and not runner.is_finishing:
                self._cancel(task, runner)

    def _stop(self, turn: TurnState) -> None:
        """Stop a turn at once: cancel its runner, and end it whether or not the runner reacts."""
        if turn.id in self._stopped:
            return
        self._stopped.add(turn.id)
        usage: Any = None
        for task, runner in self._runners.items():
            if runner.turn == turn.id:
                usage = runner.usage
                self._cancel(task, runner)
        end = FinishTurn(turn.id, Attempt(turn.attempt), Outcome.ABORTED, reason="cancelled", usage=to_raw(usage))
        if may_store_files(self._responder):
            task = asyncio.create_task(self._end(end), name=f"end of turn {turn.id} of {self._actor.agent}")
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)
            return
        with suppress(AgentStopped):  # the process stops as well: the next one ends the turn, by the log
            self._actor.force(Envelope(end))

    async def _end(self, end: FinishTurn) -> None:
        with suppress(Rejected, LogError):  # it ended in another way, or the next process ends it, by the log
            await end_turn(self._actor, self._responder, end)

    def _cancel(self, task: asyncio.Task[None], runner: TurnRunner) -> None:
        """Cancel a runner once: a second time would cut off what its `finally` awaits, so that comes much later."""
        now = self._clock.now()
        if runner.cancelled_at is None or now - runner.cancelled_at >= LET_GO:
            runner.cancelled_at = now
            runner.cancel()
            task.cancel()

    def _runner_done(self, task: asyncio.Task[None]) -> None:
        runner = self._runners.pop(task)
        if task.cancelled():
            if not runner.is_cancelled and self._phase() is ShutdownPhase.SERVING:
                self._look_again()  # the answer's own code cancelled it: that is a failed attempt
            return
        exc = task.exception()
        if exc is None and runner.retry_as is not None:
            self._failed_as[runner.turn] = runner.retry_as
            self._look_again()
            return
        if exc is None and runner.is_put_off:
            self._look_again()  # the calls that come first may have ended already
            return
        if isinstance(exc, AgentStopped | LogError) or exc is None:
            return  # the actor is gone: the next owner of the agent goes on
        log.error("turn %d of %r: its runner broke", runner.turn, self._actor.agent, exc_info=exc)
        self._look_again()
