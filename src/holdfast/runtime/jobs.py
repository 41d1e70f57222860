"""Running durable jobs: when they come again, what was missed, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from ..core.commands import EndJob, StartJob
from ..core.state import Job, State
from ..errors import AgentStopped, LogError, Rejected, UsageError
from ..events import JobAdded, JobStarted
from ..ids import JobId, Millis
from .actor import Actor
from .api import JobCall, Worker
from .clock import Clock
from .recovery import backoff

__all__ = ["check_cron", "missed_runs", "next_due", "run_job"]

log = logging.getLogger("holdfast.runtime")

MOST_COUNTED: Final = 10_000
"""How many missed runs are counted; beyond that nobody wants to know."""


def check_cron(rule: str, zone: str) -> None:
    """Raise UsageError unless the line and the time zone can be used."""
    from croniter import croniter

    if not croniter.is_valid(rule):
        raise UsageError(
            f"unable to schedule by {rule!r}; it is no cron line of five fields, such as '0 9 * * mon-fri'"
        )
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise UsageError(f"unable to schedule in {zone!r}; it is no time zone, such as 'Europe/Berlin'") from None


def next_due(added: JobAdded, after: Millis) -> Millis | None:
    """Return when the job comes next after a moment; None when it does not come again."""
    match added.kind:
        case "every":
            every = int(added.rule or 0)
            passed = (after - added.due) // every + 1
            return Millis(added.due + max(passed, 1) * every)
        case "cron":
            from croniter import croniter

            zone = ZoneInfo(added.zone or "UTC")
            moment = datetime.fromtimestamp(after / 1000, UTC).astimezone(zone)
            coming: datetime = croniter(added.rule or "", moment).get_next(datetime)
            return Millis(round(coming.timestamp() * 1000))
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


async def run_job(actor: Actor, worker: object, job: JobId, clock: Clock) -> None:
    """Run a job once: record that it begins, call the agent's method, record how it ended."""
    found = await actor.inspect(lambda state: _found(state, job))
    if found is None:
        return
    missed = missed_runs(found.added, found.due, clock.now())
    try:
        events = await actor.insist(StartJob(job, missed))
    except Rejected:
        return  # cancelled meanwhile
    started = next((event for event in events if isinstance(event, JobStarted)), None)
    if started is None:
        log.error("job %s (%s) of %r is set aside; it never ended", job, found.added.callback, actor.agent)
        return
    await _end(actor, worker, found, started, clock)


async def _end(actor: Actor, worker: object, job: Job, started: JobStarted, clock: Clock) -> None:
    added, detail = job.added, None
    try:
        if not isinstance(worker, Worker):
            raise UsageError(f"unable to call {added.callback!r}; this agent has no methods for jobs")
        payload = msgspec.json.decode(bytes(added.payload))
        await worker.run_job(JobCall(added.job, added.callback, payload, added.kind, started.run, started.missed))
        end = EndJob(added.job, started.run, "done", next_due(added, clock.now()))
    except (asyncio.CancelledError, AgentStopped, LogError):
        raise  # the next process runs it again
    except Exception as exc:
        log.warning("job %s (%s) of %r failed", added.job, added.callback, actor.agent, exc_info=exc)
        detail = f"{type(exc).__name__}: {exc}"
        attempts = job.attempts + 1
        if attempts < added.max_attempts and not isinstance(exc, UsageError):
            again = Millis(clock.now() + backoff(attempts + 1))
            end = EndJob(added.job, started.run, "retry", again, detail)
        else:
            end = EndJob(added.job, started.run, "failed", next_due(added, clock.now()), detail)
    try:
        await actor.insist(end)
    except Rejected:
        log.info("job %s of %r was cancelled while it ran", added.job, actor.agent)


def _found(state: State, job: JobId) -> Job | None:
    found = state.jobs.get(job)
    return Job(found.added, found.due, found.run, found.attempts, found.is_started) if found is not None else None
