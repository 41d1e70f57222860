"""Queued and scheduled jobs, for an agent's own code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ...core.commands import AddJob, CancelJobs
from ...core.jobs import same_job
from ...core.state import JobState, State
from ...cron import check_cron, next_of_cron
from ...events import Event, JobAdded, JobEnded, JobKind, to_raw
from ...ids import AgentId, JobId, Millis
from ...messages.json_values import plain_json
from ...principals import acting_for
from ..actor import Actor
from ..api import JobRecord
from ..directory import Directory
from ..job_runner import JobRun, running_job

__all__ = ["JobsAccess"]


class JobsAccess:
    """The durable jobs of one agent."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    def now(self) -> Millis:
        """Return the time."""
        return self._directory.clock.now()

    async def add(
        self,
        job: JobId,
        kind: JobKind,
        callback: str,
        due: int,
        payload: Any = None,
        *,
        rule: str | None = None,
        zone: str | None = None,
        max_attempts: int = 5,
        key: str | None = None,
    ) -> JobRecord:
        """Add a job and return it, or the one that is there already (R-33). The time of a cron job comes from its rule.

        Raises:
            UsageError: the rule or the zone cannot be used.
        """
        own = running_job()
        command = AddJob(
            job,
            kind,
            callback,
            Millis(due),
            to_raw(plain_json(payload)),
            rule,
            zone,
            max_attempts,
            key=key,
            within=own.job if own is not None else None,
            principal=acting_for(),
        )
        if kind == "cron":
            check_cron(rule or "", zone or "UTC")
            command = replace(command, due=next_of_cron(rule or "", zone or "UTC", self.now()))
        async with self._directory.attach(self._agent) as loaded:
            is_own = own is not None and key is not None and loaded.reconciler.jobs.is_running(own)
            while True:
                events = await (_replacing(own, loaded.actor, command) if own and is_own else loaded.actor.ask(command))
                added = next((event for event in events if isinstance(event, JobAdded)), None)
                if added is not None:
                    return _record(JobState(added, added.due))
                found = await loaded.actor.inspect(lambda state: same_job(state, command))
                if found is not None:
                    return _record(found)
                # It ended between the two looks, and is to be added after all.

    async def cancel(self, jobs: Sequence[JobId]) -> int:
        """Cancel jobs; return how many there were."""
        async with self._directory.attach(self._agent) as loaded:
            own = running_job()
            if own is not None and own.job in jobs and loaded.reconciler.jobs.is_running(own):
                own.is_ending = True  # a run that cancels its own job goes on to its end
            return len(await loaded.actor.ask(CancelJobs(list(jobs))))

    async def all(self) -> Sequence[JobRecord]:
        """Return what was put aside, in order."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_records)


async def _replacing(own: JobRun, actor: Actor, command: AddJob) -> Sequence[Event]:
    """Add a job whose key may be that of the calling run. A run that replaces its own job goes on to its end."""
    before, own.is_ending = own.is_ending, True
    is_over = False
    try:
        events = await actor.ask(command)
        is_over = any(isinstance(event, JobEnded) and event.job == own.job for event in events)
    finally:
        own.is_ending = before or is_over
    return events


def _records(state: State) -> list[JobRecord]:
    return [_record(job) for job in state.jobs.values()]


def _record(job: JobState) -> JobRecord:
    added = job.added
    payload = msgspec.json.decode(bytes(added.payload))
    return JobRecord(
        added.job,
        added.kind,
        added.callback,
        payload,
        job.due,
        job.attempts,
        added.rule,
        added.zone,
        added.key,
        added.is_declared,
    )
