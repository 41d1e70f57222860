"""Submissions: turns that `submit_messages` accepted and that run later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..ids import RequestId
from ..runtime.agent_runtime import AgentRuntime
from ..runtime.api import TurnRecord

__all__ = ["Submission", "Submissions"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A turn that was accepted and runs later. `id` is the idempotency key; times are seconds since 1970."""

    id: str
    status: Literal["pending", "running", "completed", "error", "aborted", "skipped"]
    error: str | None
    accepted_at: float
    ended_at: float | None

    @classmethod
    def of(cls, record: TurnRecord) -> Submission:
        """Translate the runtime's record."""
        status: Any = {"accepted": "pending", "cancelling": "running"}.get(record.status, record.status)
        ended = record.ended_at / 1000 if record.ended_at is not None else None
        return cls(record.request, status, record.error, record.accepted_at / 1000, ended)

    @property
    def is_open(self) -> bool:
        """Whether it still waits or runs."""
        return self.ended_at is None


class _Agent(Protocol):
    @property
    def _runtime(self) -> AgentRuntime: ...


class Submissions:
    """The turns that `submit_messages` accepted, as `self.submissions`."""

    __slots__ = ("_agent",)

    def __init__(self, agent: _Agent) -> None:
        self._agent = agent

    async def list(self) -> Sequence[Submission]:
        """Return the submissions, oldest first: all that are open, and those among the last 256 turns that ended."""
        return [Submission.of(record) for record in await self._agent._runtime.submissions.all()]

    async def get(self, submission_id: str) -> Submission | None:
        """Return how a submission stands, however old it is; None for an unknown one."""
        record = await self._agent._runtime.submissions.find(RequestId(submission_id))
        return Submission.of(record) if record is not None else None

    async def cancel(self, submission_id: str) -> Submission | None:
        """Stop a submission, waiting or running, and return it; one that has ended stays as it ended."""
        await self._agent._runtime.cancel(RequestId(submission_id))
        return await self.get(submission_id)
