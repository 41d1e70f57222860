"""`app.principals`: what is stored about one person, to be given to that person or deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from typing import IO, TYPE_CHECKING

from ...errors import UsageError
from ...ids import AgentId, Millis, split_agent_id
from ...principals import LOCAL, Principal, acting_as, acting_for
from ...runtime.api.erasures import Erasure, ErasureStep
from .personal_export import write_export

if TYPE_CHECKING:
    from .app_handle import AppHandle

__all__ = ["ErasedAgent", "ErasureReport", "Principals"]


@dataclass(frozen=True, slots=True)
class ErasedAgent:
    """What an erasure did with one agent."""

    kind: str
    name: str | None
    """None for a deleted conversation: its name may be personal."""
    is_deleted: bool
    """True for a conversation of the principal: it was deleted with everything below it."""
    counts: Mapping[str, int]
    """What was replaced, such as `{"messages": 4, "turns": 4}`."""
    old_states: int = 0
    """Old states that were deleted, because the principal's words may have been in them."""
    problem: str | None = None
    """Why it could not be done, or not completely; None if it is done."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What an erasure did. The store keeps it, without the principal's id once the erasure is complete."""

    id: str
    """The id that took the place of the principal's."""
    started_at: datetime
    ended_at: datetime | None
    """None while something could not be done."""
    agents: Sequence[ErasedAgent]
    left: str | None = None
    """What the operator has to do, such as writing the tables of PostgreSQL anew."""

    @property
    def is_complete(self) -> bool:
        """True if everything was done. If not, `erase` it again; the next start of the app does, too."""
        return self.ended_at is not None

    @property
    def problems(self) -> Sequence[ErasedAgent]:
        """The agents with which something could not be done."""
        return [each for each in self.agents if each.problem is not None]


class Principals:
    """What is stored about principals. Get it as `app.principals`."""

    def __init__(self, app: AppHandle) -> None:
        self._app = app

    async def export(self, principal: Principal | str, to: str | PathLike[str] | IO[bytes]) -> Mapping[str, int]:
        """Write everything that is stored about a principal as a zip file; return its files, with their lines.

        Conversations that it owns are complete: messages, events, states, jobs and SQL tables, of all branches and
        sub-agents. Of conversations of others there is what it did there. It is written piece by piece, and what is
        committed meanwhile may be missing. Chunks, which messages have, and texts of exceptions are left out.

        Args:
            principal: The principal, or its id.
            to: A path, or a binary file that is open for writing.
        """
        id = _id_of(principal)
        await self._app._note_act("export", principal=id)
        return await write_export(self._app, self._app._calls.personal_data, id, to)

    async def erase(self, principal: Principal | str, *, answers: bool = False) -> ErasureReport:
        """Delete what a principal owns, and replace what it wrote elsewhere; see the how-to about deleting.

        Its conversations are deleted. In conversations of others, its messages, what it gave to tools and its reasons
        for approvals are replaced by a note, and its id by another one. Its turns, jobs and fibers are stopped, its
        clients disconnected: refuse them in `authenticate` first. Erasing again is harmless. It goes on after a crash.

        Args:
            principal: The principal, or its id.
            answers: Replace the answers to its questions in conversations of others, too. They may quote it.
        """
        id = _id_of(principal)
        if id == LOCAL.id:
            raise UsageError(f"unable to erase {id!r}; it stands for every client of a server without authentication")
        asking = acting_for()
        # The records are without the id, also if it asks itself: they would be the last place that has it.
        with acting_as(None if asking is not None and asking.id == id else asking):
            await self._app._note_act("erase")
            await self._app.disconnect(principal=id)
            report = _report(*await self._app._erasures.erase(id, with_answers=answers))
            await self._app.disconnect(principal=id)
            await self._app._note_act("erase", erased=report.id, complete=report.is_complete)
        return report

    async def erasures(self) -> Sequence[ErasureReport]:
        """Return the reports of all erasures, complete or not."""
        return [_report(*each) for each in await self._app._erasures.all()]


def _id_of(principal: Principal | str) -> str:
    """Return the id of a principal.

    Raises:
        UsageError: it is none, such as None or a number. None would stand for everybody.
    """
    return principal.id if isinstance(principal, Principal) else Principal(principal).id


def _report(erasure: Erasure, steps: Sequence[ErasureStep]) -> ErasureReport:
    ended = None if erasure.ended_at is None else _time(erasure.ended_at)
    return ErasureReport(erasure.alias, _time(erasure.started_at), ended, [*map(_agent, steps)], erasure.left)


def _agent(step: ErasureStep) -> ErasedAgent:
    kind, name = split_agent_id(AgentId(step.agent)) if "/" in step.agent else (step.agent, "")
    return ErasedAgent(kind, name or None, step.action == "delete", step.counts, step.states, step.problem)


def _time(at: Millis) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
