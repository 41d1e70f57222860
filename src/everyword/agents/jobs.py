"""Durable work of an agent: a queue, and a schedule. Both are in its log, and survive everything that it does."""

from __future__ import annotations

import inspect
import reprlib
import secrets
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol

from ..errors import UsageError
from ..events import JobKind
from ..ids import JobId, Millis, id_problem
from ..runtime.api import AgentPort, JobCall, JobRecord
from .schedules import Every, takes_payload, warn_if_starting

__all__ = ["Every", "Jobs", "QueuedJob", "Schedule", "call_job", "next_request_of_job"]


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
    key: str | None = None
    declared: bool = False
    """Whether the class declares it, with `@scheduled`."""


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
    """What an agent can put aside. Methods are named; they are called with the payload, and `missed`, if they take it.

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
        self: _Agent,
        when: When,
        callback: str,
        payload: Any = None,
        *,
        zone: str = "UTC",
        max_attempts: int = 5,
        key: str | None = None,
    ) -> Schedule:
        """Do something at a time: after seconds, at a datetime, by a cron line (in a time zone), or `Every(...)`.

        Runs that fall into a time when nothing runs become one run, which is told how many it stands for.

        A cron line or an interval is there once: the same callback, rule, zone and payload again return the schedule
        that there is. A delay or a date is added every time, unless it has a `key`: then it is there once while it
        waits, and another callback, time or payload under the same key replaces it.

        Raises:
            UsageError: there is no such method, or the time or the key cannot be understood.
        """
        _check_callback(self, callback)
        _check_key(key)
        kind, due, rule = _understood(when, self._port.work.now())
        if kind == "once" and key is None:
            warn_if_starting(type(self), callback)
        job = JobId(secrets.token_urlsafe(9))
        named = zone if kind == "cron" else None
        work = self._port.work
        return _schedule(
            await work.add(job, kind, callback, due, payload, rule=rule, zone=named, max_attempts=max_attempts, key=key)
        )

    async def get_schedules(self: _Agent, callback: str | None = None) -> list[Schedule]:
        """Return what is scheduled, the next first."""
        jobs = [job for job in await self._port.work.all() if job.kind != "queue" and callback in (None, job.callback)]
        return sorted(map(_schedule, jobs), key=lambda each: each.time)

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
    is_bare = call.payload is None and not takes_payload(method)
    result = method(**more) if is_bare else method(call.payload, **more)
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


def _check_key(key: object) -> None:
    if key is not None and (not isinstance(key, str) or not key or id_problem(key, "it") is not None):
        raise UsageError(f"unable to schedule with the key {reprlib.repr(key)}; a key is text, at most 512 bytes of it")


def _understood(when: When, now: Millis) -> tuple[JobKind, int, str | None]:
    """Return the kind, the first due (0: the runtime finds it from the rule) and the rule of a time."""
    match when:
        case Every():
            return "every", now + int(when.rule), when.rule
        case str():
            return "cron", 0, when
        case datetime():
            if when.tzinfo is None:
                raise UsageError("unable to schedule at a datetime without a time zone; use datetime.now(timezone.utc)")
            return "once", round(when.timestamp() * 1000), None
        case timedelta():
            return _understood(when.total_seconds(), now)
        case int() | float():
            delay = round(when * 1000)
            return "once", now + delay, str(delay)


def _schedule(job: JobRecord) -> Schedule:
    cron = job.rule if job.kind == "cron" else None
    time = job.due / 1000
    return Schedule(job.id, job.callback, job.payload, job.kind, time, cron, job.zone, job.key, job.is_declared)
