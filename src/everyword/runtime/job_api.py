"""Jobs as agents' own code knows them: what is put aside, what its class declares, and how a run is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from ..events import JobKind
from ..ids import JobId, Millis

__all__ = ["DeclaredJob", "Declarer", "JobCall", "JobPort", "JobRecord", "Worker"]


@dataclass(frozen=True, slots=True)
class JobCall:
    """One run of a job, as the agent's own code is told of it."""

    id: JobId
    callback: str
    payload: Any
    kind: JobKind
    run: int
    missed: int
    ended: int = 0
    """The run that ended last, 0 for none: those since then are one, which processes died under."""


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
class Declarer(Protocol):
    """A responder whose agent's class may declare repeating jobs."""

    @property
    def declared_jobs(self) -> Sequence[DeclaredJob]:
        """What is to be scheduled while an agent of the class exists; read once, at activation."""
        ...


@runtime_checkable
class Worker(Protocol):
    """A responder whose agent has methods that jobs call."""

    async def run_job(self, call: JobCall) -> None:
        """Do it; raising means that it failed, and is tried again."""
        ...


class JobPort(Protocol):
    """An agent's durable jobs, through its own mailbox."""

    def now(self) -> Millis:
        """Return the time."""
        ...

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
        """Put work aside, and return it, or what is there already (R-33). A cron line's time is found from its rule.

        Raises:
            UsageError: the rule or the zone cannot be used.
        """
        ...

    async def cancel(self, jobs: Sequence[JobId]) -> int:
        """Cancel jobs; return how many there were."""
        ...

    async def all(self) -> Sequence[JobRecord]:
        """Return what was put aside, in order."""
        ...
