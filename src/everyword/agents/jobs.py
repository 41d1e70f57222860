"""Durable work of an agent: a queue, and a schedule. Both are in its log, and survive everything that it does."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol

from ..errors import UsageError
from ..events import JobKind
from ..ids import JobId, Millis
from ..runtime.api import AgentPort, JobCall, JobRecord

__all__ = ["Every", "Jobs", "QueuedJob", "Schedule", "call_job", "next_request_of_job"]


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again, with so much time in between: `Every(hours=1)`."""

    seconds: float = 0
    minutes: float = 0
    hours: float = 0

    @property
    def milliseconds(self) -> int:
        return round((self.seconds + self.minutes * 60 + self.hours * 3600) * 1000)


When = float | int | timedelta | datetime | str | Every


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """Work that waits in the queue, or is being done. `attempts` counts the runs that failed or were cut off."""

    id: str
    callback: str
    payload: Any
    attempts: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Work that has a time: `once`, by `cron` or `every` so often. `time` is when next, in seconds since 1970."""

    id: str
    callback: str
    payload: Any
    kind: str
    time: float
    cron: str | None = None
    zone: str | None = None


class _Agent(Protocol):
    _port: AgentPort


_asked: ContextVar[Iterator[str] | None] = ContextVar("everyword_requests_of_job", default=None)


def next_request_of_job() -> str | None:
    """Return the request id of the next turn that the running job starts; None outside of jobs.

    A job that is run again because its process died starts the same turns: their ids are the same, and they are not
    asked a second time.
    """
    asked = _asked.get()
    return next(asked) if asked is not None else None


class Jobs:
    """What an agent can put aside. Methods are named; they are called with the payload, and `missed` if they take it.

    A run is recorded before the method is called. One that raises is tried again with growing pauses, `max_attempts`
    times; one that kills the process every time is set aside after as many.
    """

    async def queue(self: _Agent, callback: str, payload: Any = None, *, max_attempts: int = 5) -> str:
        """Do something soon, after what is queued already; return its id."""
        _check_callback(self, callback)
        job = JobId(secrets.token_urlsafe(9))
        await self._port.work.add(job, "queue", callback, 0, payload, max_attempts=max_attempts)
        return job

    async def dequeue(self: _Agent, job_id: str) -> bool:
        """Take a job out of the queue; False when it is not there (any more)."""
        return await self._port.work.cancel([JobId(job_id)]) > 0

    async def dequeue_all(self: _Agent) -> int:
        """Empty the queue; return how many jobs were in it."""
        return await self._port.work.cancel([job.id for job in await self._port.work.all() if job.kind == "queue"])

    async def dequeue_all_by_callback(self: _Agent, callback: str) -> int:
        """Take every job that calls this method out of the queue; return how many there were."""
        found = [job.id for job in await self._port.work.all() if job.kind == "queue" and job.callback == callback]
        return await self._port.work.cancel(found)

    async def get_queue(self: _Agent, callback: str | None = None) -> list[QueuedJob]:
        """Return what waits in the queue, in order."""
        return [
            QueuedJob(job.id, job.callback, job.payload, job.attempts)
            for job in await self._port.work.all()
            if job.kind == "queue" and callback in (None, job.callback)
        ]

    async def schedule(
        self: _Agent, when: When, callback: str, payload: Any = None, *, zone: str = "UTC", max_attempts: int = 5
    ) -> Schedule:
        """Do something at a time: after seconds, at a datetime, by a cron line (in a time zone), or `Every(...)`.

        Runs that fall into a time when nothing runs become one run, which is told how many it stands for.

        Raises:
            UsageError: there is no such method, or the time cannot be understood.
        """
        _check_callback(self, callback)
        kind, due, rule = _understood(when, self._port.work.now())
        job = JobId(secrets.token_urlsafe(9))
        named = zone if kind == "cron" else None
        await self._port.work.add(job, kind, callback, due, payload, rule=rule, zone=named, max_attempts=max_attempts)
        return next(each for each in _schedules(await self._port.work.all()) if each.id == job)

    async def get_schedules(self: _Agent, callback: str | None = None) -> list[Schedule]:
        """Return what is scheduled, the next first."""
        found = [each for each in _schedules(await self._port.work.all()) if callback in (None, each.callback)]
        return sorted(found, key=lambda each: each.time)

    async def cancel_schedule(self: _Agent, schedule_id: str) -> bool:
        """Cancel what was scheduled; False when it is not there (any more)."""
        return await self._port.work.cancel([JobId(schedule_id)]) > 0


async def call_job(agent: Any, call: JobCall) -> None:
    """Call the method that a job names.

    Raises:
        UsageError: there is no such method any more.
    """
    _check_callback(agent, call.callback)
    _asked.set(map(f"job:{call.id}:{call.ended}:{{}}".format, count(1)))
    method = getattr(agent, call.callback)
    offered = {"missed": call.missed, "queue_item": QueuedJob(call.id, call.callback, call.payload, call.run)}
    more = {name: value for name, value in offered.items() if name in inspect.signature(method).parameters}
    result = method(call.payload, **more)
    if inspect.isawaitable(result):
        await result


def _check_callback(agent: Any, callback: str) -> None:
    is_private = callback.startswith("_") and callback != "_rsm_generate_response"  # a stream manager's own name
    if is_private or not callable(getattr(agent, callback, None)):
        name = type(agent).__name__
        raise UsageError(
            f"unable to put {callback!r} aside; {name} has no public method of that name. Name one that it has: jobs "
            "are kept by name, so that the next process finds them."
        )


def _understood(when: When, now: Millis) -> tuple[JobKind, int, str | None]:
    """Return the kind, the first due (0: the runtime finds it from the rule) and the rule of a time."""
    match when:
        case Every():
            if when.milliseconds < 1:
                raise UsageError("unable to schedule every 0 seconds; give Every a time, such as Every(minutes=5)")
            return "every", now + when.milliseconds, str(when.milliseconds)
        case str():
            return "cron", 0, when
        case datetime():
            if when.tzinfo is None:
                raise UsageError("unable to schedule at a datetime without a time zone; use datetime.now(timezone.utc)")
            return "once", round(when.timestamp() * 1000), None
        case timedelta():
            return "once", now + round(when.total_seconds() * 1000), None
        case int() | float():
            return "once", now + round(when * 1000), None


def _schedules(jobs: Sequence[JobRecord]) -> list[Schedule]:
    return [
        Schedule(
            job.id,
            job.callback,
            job.payload,
            job.kind,
            job.due / 1000,
            job.rule if job.kind == "cron" else None,
            job.zone,
        )
        for job in jobs
        if job.kind != "queue"
    ]
