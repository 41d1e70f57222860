"""Jobs: durable work outside of turns. Queued jobs run one after the other, scheduled jobs at their times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

import msgspec

from ..errors import Rejected
from ..events import Event, JobAdded, JobEnded, JobStarted
from ..ids import JobId, Millis
from ..rows import KeptRow
from .commands import AddJob, CancelJobs, DeclareJobs, EndJob, JobCommand, StartJob
from .state import JobState, State

__all__ = [
    "DueJobs",
    "add_job",
    "cancel_jobs",
    "decide_job",
    "declare_jobs",
    "due_jobs",
    "end_job",
    "evolve_job",
    "job_row",
    "restore_job",
    "same_job",
    "start_job",
]


class _StoredJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a job's row."""

    added: JobAdded
    due: Millis
    run: int = 0
    attempts: int = 0
    is_started: bool = False
    ended: int = 0


@dataclass(frozen=True, slots=True)
class DueJobs:
    """The jobs that should be running, and when the next one is due."""

    run: tuple[JobId, ...] = ()
    wake: Millis | None = None


# -- deciding ----------------------------------------------------------------------------------------------------------


def decide_job(state: State, command: JobCommand) -> list[Event]:
    """Return the events that a command about jobs causes."""
    match command:
        case AddJob():
            return add_job(state, command)
        case DeclareJobs():
            return declare_jobs(state, command)
        case StartJob():
            return start_job(state, command)
        case EndJob():
            return end_job(state, command)
        case CancelJobs():
            return cancel_jobs(state, command)
        case _:
            assert_never(command)


def add_job(state: State, command: AddJob) -> list[Event]:
    """Return the new job; nothing if it exists. A job with the same key and other contents is cancelled first."""
    if command.job in state.jobs:
        raise Rejected(f"unable to add job {command.job!r}; a job with this id exists")
    found = same_job(state, command)
    if found is None:
        return [_added(command, state.last_job + 1)]
    if found.added.key is None or (_contents(found.added), _date(found.added)) == (_contents(command), _date(command)):
        return []
    return [_cancelled(found), _added(command, state.last_job + 1)]


def same_job(state: State, command: AddJob) -> JobState | None:
    """Return the existing job that a command would add (R-33): by its key, or a repeating job by its contents."""
    if command.key is not None:
        named = (job for job in state.jobs.values() if job.added.key == command.key)
        return next((job for job in named if job.added.job != command.within or job.added.kind != "once"), None)
    if command.kind not in ("cron", "every"):
        return None
    said = _contents(command)
    return next((job for job in state.jobs.values() if job.added.key is None and _contents(job.added) == said), None)


def declare_jobs(state: State, command: DeclareJobs) -> list[Event]:
    """Return the events that make the declared jobs those of the command. A job that stays keeps its time.

    A job that the agent's code has scheduled, and that its class now declares, becomes a declared one with its time.
    """
    wanted = {(_contents(each), each.max_attempts): each for each in command.jobs}
    declared = [job for job in state.jobs.values() if job.added.is_declared]
    stale = [job for job in declared if wanted.pop((_contents(job.added), job.added.max_attempts), None) is None]
    events: list[Event] = [_cancelled(job) for job in stale]
    for number, each in enumerate(wanted.values(), state.last_job + 1):
        found = same_job(state, each)
        if found is None or found.added.is_declared:
            events.append(_added(each, number, is_declared=True))
        else:
            events += [_cancelled(found), _added(each, number, due=found.due, is_declared=True)]
    return events


def _added(command: AddJob, number: int, *, due: Millis | None = None, is_declared: bool = False) -> JobAdded:
    return JobAdded(
        command.job,
        command.kind,
        command.callback,
        due if due is not None else command.due,
        payload=command.payload,
        rule=command.rule,
        zone=command.zone,
        max_attempts=command.max_attempts,
        number=number,
        key=command.key,
        is_declared=is_declared,
        principal=command.principal,
    )


def _cancelled(job: JobState) -> JobEnded:
    return JobEnded(job.added.job, job.run, "cancelled")


def _contents(job: AddJob | JobAdded) -> tuple[str, str, str | None, str | None, bytes]:
    """Return the contents by which two jobs are the same. The order of members in the payload does not matter."""
    payload = msgspec.json.encode(msgspec.json.decode(bytes(job.payload)), order="deterministic")
    return job.kind, job.callback, job.rule, job.zone, payload


def _date(job: AddJob | JobAdded) -> Millis | None:
    """Return the date of a job; None for a job after a delay, and for a repeating one."""
    return job.due if job.kind == "once" and job.rule is None else None


def start_job(state: State, command: StartJob) -> list[Event]:
    """Return the start of a run, or the end of the job after too many runs that did not end."""
    job = _job(state, command.job)
    if job.is_started and job.attempts >= job.added.max_attempts:
        detail = f"{job.attempts} runs began and none of them ended"
        return [JobEnded(command.job, job.run, "set-aside", detail=detail)]
    return [JobStarted(command.job, job.run + 1, missed=command.missed)]


def end_job(state: State, command: EndJob) -> list[Event]:
    """Return the end of a run. With `due`, the job is retried or repeated then; else it is done."""
    job = _job(state, command.job)
    if job.run != command.run or not job.is_started:
        raise Rejected(f"unable to end run {command.run} of job {command.job!r}; it is not the running one")
    return [JobEnded(command.job, command.run, command.outcome, due=command.due, detail=command.detail)]


def cancel_jobs(state: State, command: CancelJobs) -> list[Event]:
    return [_cancelled(state.jobs[job]) for job in command.jobs if job in state.jobs]


def due_jobs(state: State, now: Millis) -> DueJobs:
    """Return the first queued job and every scheduled one whose time has come."""
    run: list[JobId] = []
    waits: list[Millis] = []
    has_queued = False
    for job, each in state.jobs.items():
        if each.added.kind == "queue":
            if has_queued:
                continue  # one after the other: the first is retried until it is done or given up
            has_queued = True
        if each.due <= now:
            run.append(job)
        else:
            waits.append(each.due)
    return DueJobs(tuple(run), min(waits, default=None))


def _job(state: State, job: JobId) -> JobState:
    found = state.jobs.get(job)
    if found is None:
        raise Rejected(f"unable to find job {job!r}; it has ended or was cancelled")
    return found


# -- events and rows ---------------------------------------------------------------------------------------------


def evolve_job(state: State, event: JobAdded | JobStarted | JobEnded) -> None:
    """Apply an event to the jobs."""
    if isinstance(event, JobAdded):
        state.jobs[event.job] = JobState(event, event.due)
        state.last_job = max(state.last_job, event.number)
        return
    job = state.jobs.get(event.job)
    if job is None:
        return
    if isinstance(event, JobStarted):
        job.run, job.attempts, job.is_started = event.run, job.attempts + 1, True
    elif event.due is None:
        del state.jobs[event.job]
    else:
        job.due, job.is_started = event.due, False
        if event.outcome == "stopped":  # a graceful shutdown: the run did not fail, and does not count
            job.attempts -= 1
            return
        job.ended = event.run
        job.attempts = job.attempts if event.outcome == "retry" else 0


def job_row(state: State, job: JobId) -> KeptRow:
    """Return the row of a job; without a body if the job has ended."""
    found = state.jobs.get(job)
    if found is None:
        return KeptRow("job", job, None)
    kept = _StoredJob(found.added, found.due, found.run, found.attempts, found.is_started, found.ended)
    return KeptRow("job", job, msgspec.json.encode(kept))


def restore_job(rows: Iterable[KeptRow]) -> dict[JobId, JobState]:
    """Return the jobs of rows, in the order in which they were added."""
    kept = [msgspec.json.decode(row.body, type=_StoredJob) for row in rows if row.body is not None]
    kept.sort(key=lambda each: each.added.number)
    return {
        each.added.job: JobState(each.added, each.due, each.run, each.attempts, each.is_started, each.ended)
        for each in kept
    }
