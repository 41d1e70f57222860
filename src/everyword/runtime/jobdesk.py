"""Putting work aside: `runtime.api.JobPort` over the agent's own mailbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.commands import AddJob, CancelJobs
from ..core.state import State
from ..events import JobAdded, JobKind, to_raw
from ..ids import AgentId, JobId, Millis
from ..messages.jsonvalues import plain_json
from .api import JobRecord
from .directory import Directory
from .jobs import check_cron, next_due, running_job

__all__ = ["JobDesk"]


class JobDesk:
    """Implements `JobPort` for one agent of a directory."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    def now(self) -> Millis:
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
    ) -> None:
        command = AddJob(job, kind, callback, Millis(due), to_raw(plain_json(payload)), rule, zone, max_attempts)
        if kind == "cron":
            check_cron(rule or "", zone or "UTC")
            added = JobAdded(job, kind, callback, self.now(), rule=rule, zone=zone)
            command = replace(command, due=next_due(added, self.now()) or self.now())
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(command)

    async def cancel(self, jobs: Sequence[JobId]) -> int:
        async with self._directory.attach(self._agent) as loaded:
            own = running_job()
            if own is not None and own.job in jobs and loaded.agency.jobs.get(own.job) is own:
                own.is_ending = True  # a run that cancels its own job goes on to its end
            return len(await loaded.actor.ask(CancelJobs(list(jobs))))

    async def all(self) -> Sequence[JobRecord]:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_records)


def _records(state: State) -> list[JobRecord]:
    return [
        JobRecord(
            job.added.job,
            job.added.kind,
            job.added.callback,
            msgspec.json.decode(bytes(job.added.payload)),
            job.due,
            job.attempts,
            job.added.rule,
            job.added.zone,
        )
        for job in state.jobs.values()
    ]
