"""Running durable jobs: when a repeating job is due next, which runs were missed, and retries after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

import msgspec

from ..core.commands import EndJob, StartJob
from ..core.state import JobState, State
from ..cron import next_of_cron
from ..errors import AgentGone, AgentStopped, JobNotDone, LogError, Rejected, UsageError
from ..events import JobAdded, JobKind, JobStarted
from ..ids import JobId, Millis
from ..principals import act_for
from .actor import Actor
from .api import JobCall, RunsJobs
from .clock import Clock
from .mailbox import Envelope
from .recovery import backoff

__all__ = ["JobRun", "JobSupervisor", "missed_runs", "next_due", "running_job"]

log = logging.getLogger("everyword.runtime")

MOST_COUNTED: Final = 10_000
"""Missed runs are counted up to this number."""


def next_due(added: JobAdded, after: Millis) -> Millis | None:
    """Return when the job comes next after a moment; None when it does not come again."""
    match added.kind:
        case "every":
            every = int(added.rule or 0)
            passed = (after - added.due) // every + 1
            return Millis(added.due + max(passed, 1) * every)
        case "cron":
            return next_of_cron(added.rule or "", added.zone or "UTC", after)
        case _:
            return None


def missed_runs(added: JobAdded, due: Millis, now: Millis) -> int:
    """Return how many runs after the one at `due` should have begun by now."""
    missed = 0
    coming = next_due(added, due)
    while coming is not None and coming <= now and missed < MOST_COUNTED:
        missed += 1
        coming = next_due(added, coming)
    return missed


class JobRun:
    """One run of a job, in a task of its own: record that it begins, call the agent's method, record how it ended."""

    def __init__(self, actor: Actor, worker: object, job: JobId, kind: JobKind, clock: Clock) -> None:
        self.job, self.kind = job, kind
        self.is_ending = False
        """Set when this run need not be stopped any more: its end is posted, or it may go on to its end."""
        self.is_cancelled = False
        self._actor, self._worker, self._clock = actor, worker, clock
        self._stopped: EndJob | None = None
        """What to record if a shutdown interrupts the run; behind its end it says nothing."""
        self.task = asyncio.create_task(self._run(), name=f"job {job} of {actor.agent}")

    def cancel(self) -> None:
        """Stop the method, once: its end is in the log already."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel()

    def interrupt(self) -> None:
        """Record that a shutdown interrupts the run: it was no failure, and the next process goes on with it."""
        if self._stopped is not None:
            self._actor.force(Envelope(self._stopped))

    async def _run(self) -> None:
        _running.set(self)
        found = await self._actor.inspect(lambda state: _found(state, self.job))
        if found is None:
            return
        missed = missed_runs(found.added, found.due, self._clock.now())
        self.is_ending = True  # it may be set aside instead
        self._stopped = EndJob(self.job, found.run + 1, "stopped", found.due)
        try:
            events = await self._actor.insist(StartJob(self.job, missed))
        except AgentStopped:
            raise
        except Rejected:
            return  # cancelled meanwhile
        started = next((event for event in events if isinstance(event, JobStarted)), None)
        if started is None:
            callback = found.added.callback
            log.error("job %s (%s) of %r is set aside; it never ended", self.job, callback, self._actor.agent)
            return
        self.is_ending = False
        if await self._actor.inspect(lambda state: self.job in state.jobs):
            await self._end(found, started)

    async def _end(self, job: JobState, started: JobStarted) -> None:
        added = job.added
        try:
            await self._call(job, started)
            end = EndJob(added.job, started.run, "done", next_due(added, self._clock.now()))
        except (asyncio.CancelledError, AgentStopped, LogError) as exc:
            is_own = isinstance(exc, asyncio.CancelledError) and not _is_told()
            is_of_another = isinstance(exc, AgentGone) and not self._actor.is_halted
            if not (is_own or is_of_another):
                raise  # cancelled, or the next process runs it again
            end = self._failed(job, started, exc)
        except JobNotDone as exc:
            end = self._not_done(job, started, exc)
        except Exception as exc:  # noqa: BLE001 - the agent's own code
            end = self._failed(job, started, exc)
        self.is_ending = True
        try:
            await self._actor.insist(end)
        except AgentStopped:
            raise
        except Rejected:
            log.info("job %s of %r was cancelled while it ran", added.job, self._actor.agent)

    async def _call(self, job: JobState, started: JobStarted) -> None:
        added = job.added
        act_for(added.principal)
        if not isinstance(self._worker, RunsJobs):
            raise UsageError(f"unable to call {added.callback!r}; this agent has no methods for jobs")
        payload = msgspec.json.decode(bytes(added.payload))
        call = JobCall(
            *(added.job, added.callback, payload, added.kind, started.run, started.missed, job.ended),
            attempt=job.attempts + 1,
        )
        await self._worker.run_job(call)

    def _failed(self, job: JobState, started: JobStarted, exc: BaseException) -> EndJob:
        added, attempts = job.added, job.attempts + 1
        log.warning("job %s (%s) of %r failed", added.job, added.callback, self._actor.agent, exc_info=exc)
        detail = f"{type(exc).__name__}: {exc}"
        if attempts < added.max_attempts and not isinstance(exc, UsageError):
            again = Millis(self._clock.now() + backoff(attempts + 1))
            return EndJob(added.job, started.run, "retry", again, detail)
        return EndJob(added.job, started.run, "failed", next_due(added, self._clock.now()), detail)

    def _not_done(self, job: JobState, started: JobStarted, exc: JobNotDone) -> EndJob:
        """Return the end of a run that raised `JobNotDone`, which says when to try again."""
        added, again = job.added, None if exc.again_after is None else Millis(self._clock.now() + exc.again_after)
        if exc.is_postponed:
            return EndJob(added.job, started.run, "stopped", again)
        described = f"job {added.job} ({added.callback}) of {self._actor.agent!r}"
        if again is None or job.attempts + 1 >= added.max_attempts:
            log.error("%s is given up; %s", described, exc, exc_info=exc.__cause__)
            return EndJob(added.job, started.run, "failed", next_due(added, self._clock.now()), str(exc))
        seconds = (exc.again_after or 0) / 1000
        log.warning("%s is tried again in %.0f s; %s", described, seconds, exc, exc_info=exc.__cause__)
        return EndJob(added.job, started.run, "retry", again, str(exc))


class JobSupervisor:
    """The jobs of one loaded agent that run in this process."""

    def __init__(
        self,
        actor: Actor,
        worker: object,
        clock: Clock,
        *,
        look_at: Callable[[Millis], None],
        look_again: Callable[[], None],
    ) -> None:
        self._actor, self._worker, self._clock = actor, worker, clock
        self._look_at, self._look_again = look_at, look_again
        self._runs: dict[JobId, JobRun] = {}
        self._broken: dict[JobId, int] = {}
        """How often a run of a job broke in our own code, one after the other."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [run.task for run in self._runs.values()]

    def is_running(self, run: JobRun) -> bool:
        """Tell whether the run is one of this agent's, and goes on."""
        return self._runs.get(run.job) is run

    def retire(self, open_jobs: Container[JobId]) -> None:
        """Cancel runs whose job was cancelled."""
        for job, run in self._runs.items():
            if job not in open_jobs and not run.is_ending:
                run.cancel()

    def start(self, due: Iterable[JobId], jobs: Mapping[JobId, JobState]) -> None:
        """Run the jobs that are due and do not run yet."""
        for job in due:
            if job not in self._runs:
                self._start(job, jobs[job].added.kind)

    def interrupt(self) -> None:
        """Record that a shutdown interrupts what runs."""
        for run in self._runs.values():
            run.interrupt()

    def _start(self, job: JobId, kind: JobKind) -> None:
        if kind == "queue" and any(run.is_cancelled and run.kind == kind for run in self._runs.values()):
            return  # one after the other: the run that was cancelled has to end first
        run = self._runs[job] = JobRun(self._actor, self._worker, job, kind, self._clock)
        run.task.add_done_callback(lambda task: self._done(run, task))

    def _done(self, run: JobRun, task: asyncio.Task[None]) -> None:
        del self._runs[run.job]
        exc = None if task.cancelled() else task.exception()
        if exc is not None and not isinstance(exc, AgentStopped | LogError):
            log.error("job %s of %r broke; it is looked at again", run.job, self._actor.agent, exc_info=exc)
            self._broken[run.job] = self._broken.get(run.job, 0) + 1
            self._look_at(Millis(self._clock.now() + backoff(self._broken[run.job] + 1)))
        elif run.is_cancelled or not (task.cancelled() or exc):
            self._broken.pop(run.job, None)
            self._look_again()  # the jobs that waited behind it


_running: ContextVar[JobRun | None] = ContextVar("everyword_running_job", default=None)


def running_job() -> JobRun | None:
    """Return the run that the calling code is part of."""
    return _running.get()


def _is_told() -> bool:
    """Return True if the current task was cancelled from outside, not by its own code."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _found(state: State, job: JobId) -> JobState | None:
    found = state.jobs.get(job)
    return replace(found) if found is not None else None
