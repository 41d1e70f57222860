"""Jobs: queued and scheduled calls of an agent's methods. They are stored in its log and survive restarts."""

from __future__ import annotations

import inspect
import reprlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, Protocol, cast

from ..errors import UsageError
from ..events import JobKind
from ..ids import JobId, Millis, id_problem
from ..runtime.agent_runtime import AgentRuntime
from ..runtime.api import JobCall, JobRecord
from .schedules import Every, takes_payload, warn_if_starting

__all__ = ["Every", "HasJobs", "Job", "Jobs", "call_job", "next_request_of_job"]

OWN: Final = "everyword."
"""The prefix of callbacks of the framework's own jobs, such as those of notifications."""

When = float | int | timedelta | datetime | str | Every


@dataclass(frozen=True, slots=True)
class Job:
    """A queued job (`kind` is `queue`) or a scheduled one (`once`, `cron` or `every`)."""

    id: str
    """What `jobs.get` and `jobs.cancel` take."""
    callback: str
    """The name of the method."""
    payload: Any
    """What the method is given, as JSON."""
    kind: JobKind
    """`queue`, or how it is scheduled: `once`, by `cron`, or `every` so often."""
    attempts: int = 0
    """How many runs failed or were cut off since the last one that succeeded."""
    time: float = 0.0
    """When a scheduled job is due next, in seconds since 1970; 0 for the queue."""
    cron: str | None = None
    """The cron line, of `cron`."""
    zone: str | None = None
    """The time zone of the cron line."""
    key: str | None = None
    """The key that it was scheduled with."""
    declared: bool = False
    """Whether the class declares it, with `@scheduled`."""


class _Agent(Protocol):
    @property
    def _runtime(self) -> AgentRuntime: ...


_job_requests: ContextVar[Iterator[str] | None] = ContextVar("everyword_requests_of_job", default=None)


def next_request_of_job() -> str | None:
    """Return the request id of the next turn that the running job starts; None outside of jobs.

    A job that runs again after its process died gets the same ids again, so its turns are not asked twice.
    """
    asked = _job_requests.get()
    return next(asked) if asked is not None else None


class Jobs:
    """The queued and scheduled work of an agent, as `self.jobs`.

    A run is recorded before the method is called. A run that raises is tried again with growing pauses, `max_attempts`
    times; one that kills the process each time is set aside after as many.
    """

    __slots__ = ("_agent",)

    def __init__(self, agent: _Agent) -> None:
        self._agent = agent

    async def list(self, callback: str | None = None, *, queued: bool | None = None) -> Sequence[Job]:
        """Return the queue in its order, then the scheduled jobs, the next one first; not the framework's own jobs.

        Args:
            callback: Only jobs that call this method.
            queued: True for the queue only, False for scheduled jobs only.
        """
        found = [
            _job(record)
            for record in await self._agent._runtime.jobs.all()
            if not record.callback.startswith(OWN)
            and callback in (None, record.callback)
            and queued in (None, record.kind == "queue")
        ]
        return sorted(found, key=lambda each: each.time)  # a stable sort: the queue has time 0, and keeps its order

    async def get(self, job_id: str) -> Job | None:
        """Return one job; None when it is done, cancelled or unknown."""
        return next((each for each in await self.list() if each.id == job_id), None)

    async def cancel(self, job_id: str) -> bool:
        """Cancel a job; False when it is done, cancelled or unknown."""
        return await self._agent._runtime.jobs.cancel([JobId(job_id)]) > 0

    async def cancel_all(self, callback: str | None = None, *, queued: bool | None = None) -> int:
        """Cancel the jobs that `list` returns for these arguments; return how many there were."""
        found = [JobId(each.id) for each in await self.list(callback, queued=queued)]
        return await self._agent._runtime.jobs.cancel(found)


class HasJobs:
    """The jobs of an agent. A job names a method, which gets the payload, and `missed` if it has that parameter."""

    _runtime: AgentRuntime
    _job_callbacks: Mapping[str, Callable[..., Any]] = {}
    """Functions of the framework that jobs call by name, unless the class has a method of that name."""

    @property
    def jobs(self) -> Jobs:
        """Queued and scheduled work: list, get and cancel it."""
        return Jobs(self)

    def _add_job_callback(self, name: str, function: Callable[..., Any]) -> None:
        """Let jobs call a function of the framework by name. The first function of a name stays."""
        self._job_callbacks = {name: function, **self._job_callbacks}

    async def queue(self, callback: str, payload: Any = None, *, max_attempts: int = 5) -> str:
        """Call a method as soon as possible, after the jobs that are queued already; return the id of the job."""
        _find_callback(self, callback)
        job = JobId(secrets.token_urlsafe(9))
        await self._runtime.jobs.add(job, "queue", callback, 0, payload, max_attempts=max_attempts)
        return job

    async def schedule(
        self,
        when: When,
        callback: str,
        payload: Any = None,
        *,
        zone: str = "UTC",
        max_attempts: int = 5,
        key: str | None = None,
    ) -> Job:
        """Call a method at a time: after seconds, at a datetime, by a cron line (in a time zone), or `Every(...)`.

        Runs that were due while no process ran become one run; `missed` is their number.

        Scheduling the same callback, cron line or interval, zone and payload again returns the existing schedule. A
        delay or a date adds a job each time, unless it has a `key`: then there is one job per key while it waits, and
        another callback, time or payload under the same key replaces it.

        Raises:
            UsageError: there is no such method, or the time or the key cannot be understood.
        """
        _find_callback(self, callback)
        _check_key(key)
        kind, due, rule = _parse_time(when, self._runtime.jobs.now())
        if kind == "once" and key is None:
            warn_if_starting(type(self), callback)
        job = JobId(secrets.token_urlsafe(9))
        named = zone if kind == "cron" else None
        work = self._runtime.jobs
        return _job(
            await work.add(job, kind, callback, due, payload, rule=rule, zone=named, max_attempts=max_attempts, key=key)
        )

    async def cancel_schedule(self, schedule_id: str) -> bool:
        """Cancel a scheduled job, like `jobs.cancel`; False if it is done, cancelled or unknown."""
        return await self.jobs.cancel(schedule_id)


async def call_job(agent: HasJobs, call: JobCall) -> None:
    """Call the method that a job names.

    Raises:
        UsageError: the class no longer has the method.
    """
    method = _find_callback(agent, call.callback)
    _job_requests.set(map(f"job:{call.id}:{call.ended}:{{}}".format, count(1)))
    offered = {"missed": call.missed, "queue_item": Job(call.id, call.callback, call.payload, call.kind, call.run)}
    more = {name: value for name, value in offered.items() if name in inspect.signature(method).parameters}
    is_bare = call.payload is None and not takes_payload(method)
    result = method(**more) if is_bare else method(call.payload, **more)
    if inspect.isawaitable(result):
        await result


def _find_callback(agent: HasJobs, callback: str) -> Callable[..., Any]:
    """Return the function that a job names.

    Raises:
        UsageError: there is none, or it is private; only a stream manager's own name may be private.
    """
    is_private = callback.startswith("_") and callback != "_rsm_generate_response"
    found = None if is_private else getattr(agent, callback, agent._job_callbacks.get(callback))
    if not callable(found):
        name = type(agent).__name__
        raise UsageError(
            f"unable to queue a job; {name} has no public method {callback!r}. Give the name of a "
            "method: jobs are stored by name, so that the next process finds it."
        )
    return cast(Callable[..., Any], found)


def _check_key(key: object) -> None:
    if key is not None and (not isinstance(key, str) or not key or id_problem(key, "it") is not None):
        raise UsageError(f"unable to schedule with the key {reprlib.repr(key)}; a key is text, at most 512 bytes of it")


def _parse_time(when: When, now: Millis) -> tuple[JobKind, int, str | None]:
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
            return _parse_time(when.total_seconds(), now)
        case int() | float():
            delay = round(when * 1000)
            return "once", now + delay, str(delay)


def _job(record: JobRecord) -> Job:
    is_queued = record.kind == "queue"
    return Job(
        record.id,
        record.callback,
        record.payload,
        record.kind,
        record.attempts,
        0.0 if is_queued else record.due / 1000,
        record.rule if record.kind == "cron" else None,
        record.zone,
        record.key,
        record.is_declared,
    )
