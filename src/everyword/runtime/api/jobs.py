"""Jobs as agents' own code knows them: records, declared schedules, and the call of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from ...events import JobKind
from ...ids import JobId, Millis

__all__ = ["DeclaredJob", "DeclaresJobs", "JobCall", "JobRecord", "RunsJobs"]


@dataclass(frozen=True, slots=True)
class JobCall:
    """One run of a job, as the agent's own code gets it."""

    id: JobId
    callback: str
    payload: Any
    kind: JobKind
    run: int
    missed: int
    ended: int = 0
    """The run that ended last, 0 for none. All runs since then are the same one, started again after crashes."""
    attempt: int = 1
    """The number of the attempt; runs that a shutdown stopped do not count."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it stands."""

    id: JobId
    kind: JobKind
    callback: str
    payload: Any
    due: Millis
    attempts: int
    rule: str | None = None
    zone: str | None = None
    key: str | None = None
    is_declared: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """A repeating job that an agent's class declares."""

    kind: Literal["cron", "every"]
    callback: str
    rule: str
    zone: str | None = None
    payload: Any = None
    max_attempts: int = 5


@runtime_checkable
class DeclaresJobs(Protocol):
    """A responder whose agent's class may declare repeating jobs."""

    @property
    def declared_jobs(self) -> Sequence[DeclaredJob]:
        """What is to be scheduled while an agent of the class exists; read once, at activation."""
        ...


@runtime_checkable
class RunsJobs(Protocol):
    """A responder whose agent has methods that jobs call."""

    async def run_job(self, call: JobCall) -> None:
        """Do it; raising means that it failed, and is tried again."""
        ...
