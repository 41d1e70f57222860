"""Running fibers in this process, and recovering those that a dead process left behind.

A fiber is begun in the log before its code runs, and ended there before its result is returned. One that is open
in the log and does not run here was left by a process that died, or by an owner that lost the agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import Context
from typing import Any

import msgspec

from ..core.commands import EndFiber, PauseFiber, RecoverFiber, StartFiber
from ..core.state import FiberState, State
from ..errors import AgentGone, AgentStopped, FiberCancelled, LogError, Rejected
from ..events import FiberOutcome, FiberStarted
from ..ids import FiberId, Millis
from ..principals import act_for, acting_for
from .actor import Actor
from .api import FiberRecord, FiberWork, RecoversFibers
from .clock import Clock
from .mailbox import Envelope
from .recovery import backoff

__all__ = ["FiberRun", "FiberSupervisor", "fiber_record", "fiber_records"]

log = logging.getLogger("everyword.runtime")


class FiberRun:
    """One fiber while its code runs here."""

    def __init__(self, fiber: FiberId) -> None:
        self.fiber = fiber
        self.task: asyncio.Task[Any] | None = None
        self.is_ending = False
        """Set before the end is posted: from then on it need not be stopped."""
        self.is_cancelled = False

    @property
    def is_interruptible(self) -> bool:
        """Whether its code runs, or is about to, and is neither at its end nor told to stop."""
        return not self.is_ending and not self.is_cancelled

    def cancel(self) -> None:
        """Stop the code, once: its end is in the log already."""
        if self.task is not None and not self.is_cancelled:
            self.task.cancel()
        self.is_cancelled = True

    async def result(self) -> Any:
        """Wait for the end and return what the code returned, or raise what it raised. Safe to cancel: it goes on.

        Raises:
            FiberCancelled: it was cancelled.
            AgentStopped: it was interrupted; the next owner of the agent recovers it.
        """
        assert self.task is not None
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if not self.task.cancelled() or (waiting is not None and waiting.cancelling()):
                raise
            if self.is_cancelled:
                raise FiberCancelled(f"unable to wait for fiber {self.fiber!r}; it was cancelled") from None
            raise AgentStopped(f"unable to wait for fiber {self.fiber!r} here; the agent was unloaded") from None


class _Recovery:
    """A fiber that is being recovered; adopted once code runs it again."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.is_adopted = False
        self.is_starting = False
        """True while the record of the next attempt is being committed."""
        self.is_ending = True
        """True when it need not be stopped: its own commands may end the fiber."""

    @property
    def is_interruptible(self) -> bool:
        """Whether an attempt of its own runs, or is about to."""
        return not self.is_adopted and (self.is_starting or not self.is_ending)


class FiberSupervisor:
    """The fibers of one loaded agent."""

    def __init__(self, actor: Actor, responder: object, clock: Clock) -> None:
        self._actor, self._responder, self._clock = actor, responder, clock
        self._runs: dict[FiberId, FiberRun] = {}
        self._recoveries: dict[FiberId, _Recovery] = {}

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Everything that runs here, to be stopped with the agent."""
        runs = [run.task for run in self._runs.values() if run.task is not None]
        return [*runs, *(each.task for each in self._recoveries.values() if each.task is not None)]

    def retire(self, wanted: Sequence[FiberId]) -> None:
        """Stop what the log says is over."""
        for fiber, run in self._runs.items():
            if fiber not in wanted and not run.is_ending:
                run.cancel()
        for fiber, recovery in self._recoveries.items():
            if fiber not in wanted and not recovery.is_adopted and not recovery.is_ending:
                recovery.is_ending = True
                if recovery.task is not None:
                    recovery.task.cancel()

    def interrupt(self) -> None:
        """Record that a shutdown interrupts what runs: these attempts do not count, and the next process goes on."""
        for begun in (self._recoveries, self._runs):
            for fiber in [fiber for fiber, each in begun.items() if each.is_interruptible]:
                self._actor.force(Envelope(PauseFiber(fiber)))

    def hand_back(self, wanted: Sequence[FiberId]) -> None:
        """Give the agent's own code what should be running and is not."""
        for fiber in wanted:
            if fiber not in self._runs and fiber not in self._recoveries:
                recovery = self._recoveries[fiber] = _Recovery()  # first: a loop may start tasks where they are made
                work = self._hand_over(fiber)
                task = asyncio.create_task(work, name=f"recovery of fiber {fiber}", context=Context())
                task.add_done_callback(lambda task, fiber=fiber: self._recovered(fiber, task))  # type: ignore[misc]
                recovery.task = task

    async def start(
        self, fiber: FiberId, name: str, work: FiberWork, context: Context | None = None
    ) -> FiberRun | FiberRecord:
        """Record that the fiber begins, and run its code; one that runs already is returned as it is.

        The record of a fiber that has ended is returned instead: its id starts nothing again.
        """
        found = self._runs.get(fiber)
        if found is not None:
            return found
        run = self._runs[fiber] = FiberRun(fiber)  # before the commit, which looks for what should run and does not
        recovery = self._recoveries.get(fiber)
        if recovery is not None:
            recovery.is_adopted = True
        try:
            await self._actor.ask(StartFiber(fiber, name, acting_for()))
            record = await self._actor.inspect(lambda state: fiber_record(state.fibers[fiber]))
        except BaseException:
            del self._runs[fiber]
            if recovery is not None:
                recovery.is_adopted = False
            raise
        if record.outcome is not None:
            del self._runs[fiber]
            return record
        run.task = asyncio.create_task(
            self._live(run, record, work), name=f"fiber {fiber} of {self._actor.agent}", context=context
        )
        run.task.add_done_callback(lambda task: self._done(run, task))
        return run

    # -- living and ending ------------------------------------------------------------------------------------

    async def _live(self, run: FiberRun, record: FiberRecord, work: FiberWork) -> Any:
        act_for(record.principal)
        try:
            result = await work(record)
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the log says that it is over, or the next owner recovers it
            await self._end(run, "failed", _detail(exc))
            raise RuntimeError(f"fiber {run.fiber!r} was cancelled by its own code") from exc
        except Exception as exc:
            log.warning("fiber %s (%s) of %r failed", run.fiber, record.name, self._actor.agent, exc_info=exc)
            await self._end(run, "failed", _detail(exc))
            raise
        await self._end(run, "done")
        return result

    async def _end(self, run: FiberRun, outcome: FiberOutcome, detail: str | None = None) -> None:
        run.is_ending = True
        try:
            events = await self._actor.insist(EndFiber(run.fiber, outcome, detail))
        except AgentGone:
            return  # it destroyed its own agent: nothing is left to be written
        if not events:
            raise FiberCancelled(f"unable to end fiber {run.fiber!r}; it was cancelled")

    def _done(self, run: FiberRun, task: asyncio.Task[Any]) -> None:
        del self._runs[run.fiber]
        if not task.cancelled():
            task.exception()  # logged already, and raised in `result`

    # -- handing back ---------------------------------------------------------------------------------------------

    async def _hand_over(self, fiber: FiberId) -> None:
        """Hand a fiber back, again after a pause while the agent's code raises, until it may not be tried any more."""
        recovery = self._recoveries[fiber]
        while True:
            recovery.is_starting = recovery.is_ending = True
            events = await self._actor.insist(RecoverFiber(fiber))
            recovery.is_starting = False
            if not any(isinstance(event, FiberStarted) for event in events):
                log.error("fiber %s of %r is set aside; it never ended", fiber, self._actor.agent)
                return
            recovery.is_ending = False
            record = await self._actor.inspect(lambda state: fiber_record(state.fibers[fiber]))
            if record.outcome is not None:
                return  # cancelled meanwhile
            act_for(record.principal)
            try:
                if isinstance(self._responder, RecoversFibers):
                    await self._responder.on_fiber_recovered(record)
            except Exception:
                log.exception("on_fiber_recovered of %r raised for fiber %s", self._actor.agent, fiber)
                if recovery.is_adopted:
                    return
                await self._clock.sleep_until(Millis(self._clock.now() + backoff(record.attempts)))
                continue
            if not recovery.is_adopted:
                recovery.is_ending = True
                await self._actor.insist(EndFiber(fiber, "interrupted", "it was not continued"))
            return

    def _recovered(self, fiber: FiberId, task: asyncio.Task[None]) -> None:
        del self._recoveries[fiber]
        exc = None if task.cancelled() else task.exception()
        if exc is not None and not isinstance(exc, Rejected | LogError):  # ended meanwhile, or the agent is lost
            log.error("the recovery of fiber %s of %r broke", fiber, self._actor.agent, exc_info=exc)


def fiber_record(fiber: FiberState) -> FiberRecord:
    """Return a fiber as it stands."""
    return FiberRecord(
        fiber.id,
        fiber.name,
        fiber.outcome,
        msgspec.json.decode(fiber.snapshot) if fiber.snapshot is not None else None,
        fiber.started_at,
        fiber.attempt,
        fiber.detail,
        fiber.ended_at,
        fiber.principal,
    )


def fiber_records(state: State) -> list[FiberRecord]:
    """Return the fibers that the state knows, oldest first."""
    return [fiber_record(each) for each in state.fibers.values()]


def _detail(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}"
