"""Attributes of handles: `handle.jobs`, `.sub_agents`, `.submissions` and `.versions`, like those of the agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..jobs import Job
from ..kinds import all_kinds
from ..sub_agent_classes import SubAgentAddress, check_child, child_classes, remember_child
from ..submissions import Submission
from ..versions import Version

if TYPE_CHECKING:
    from ..chat import AIChatAgent
    from .chat_handle import ChatHandle

__all__ = ["JobsHandle", "SubAgentsHandle", "SubmissionsHandle", "VersionsHandle"]

C_co = TypeVar("C_co", bound="AIChatAgent[Any]", covariant=True)

Do = Callable[[str, Any, dict[str, Any]], Awaitable[Any]]
"""Runs an operation in the agent: its name, the type of the result, and the arguments."""


class JobsHandle:
    """The queued and scheduled work of an agent, as `handle.jobs`."""

    __slots__ = ("_do",)

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(self, callback: str | None = None, *, queued: bool | None = None) -> Sequence[Job]:
        """Return the queue in its order, then the scheduled jobs, the next one first; see `Jobs.list`."""
        jobs: Sequence[Job] = await self._do("list_jobs", Sequence[Job], {"callback": callback, "queued": queued})
        return jobs

    async def get(self, job_id: str) -> Job | None:
        """Return one job; None when it is done, cancelled or unknown."""
        job: Job | None = await self._do("get_job", Job | None, {"job_id": job_id})
        return job

    async def cancel(self, job_id: str) -> bool:
        """Cancel a job; False when it is done, cancelled or unknown."""
        was_there: bool = await self._do("cancel_job", bool, {"job_id": job_id})
        return was_there

    async def cancel_all(self, callback: str | None = None, *, queued: bool | None = None) -> int:
        """Cancel the jobs that `list` returns for these arguments; return how many there were."""
        cancelled: int = await self._do("cancel_jobs", int, {"callback": callback, "queued": queued})
        return cancelled


class SubAgentsHandle:
    """The agents below an agent, as `handle.sub_agents`."""

    __slots__ = ("_do", "_parent")

    def __init__(self, do: Do, parent: type[Any]) -> None:
        self._do, self._parent = do, parent

    async def exists(self, cls: type[Any], name: str) -> bool:
        """Tell whether there is a sub-agent of this class and name; does not create one."""
        is_there: bool = await self._do("has_sub_agent", bool, self._child(cls, name))
        return is_there

    async def list(self, cls: type[Any] | None = None) -> Sequence[SubAgentAddress]:
        """Return the sub-agents, those of one class if it is given, oldest first; not those below them.

        Sub-agents whose class this process does not know are left out: list the class in `sub_agent_classes`.
        """
        found: Sequence[tuple[str, str]] = await self._do("list_sub_agents", Sequence[tuple[str, str]], {})
        known = dict.fromkeys(all_kinds(cls), cls) if cls is not None else child_classes(self._parent)
        return [SubAgentAddress(child, name) for kind, name in found if (child := known.get(kind)) is not None]

    async def abort(self, cls: type[Any], name: str) -> None:
        """Stop every turn of a sub-agent, running or waiting; its messages are kept."""
        await self._do("abort_sub_agent", None, self._child(cls, name))

    async def delete(self, cls: type[Any], name: str) -> bool:
        """Destroy a sub-agent, all that it stored and every agent below it; False if there is none."""
        was_there: bool = await self._do("delete_sub_agent", bool, self._child(cls, name))
        return was_there

    def _child(self, cls: type[Any], name: str) -> dict[str, Any]:
        check_child(cls, name)
        remember_child(self._parent, cls)
        return {"kind": cls.kind, "name": name}


class SubmissionsHandle:
    """The turns that `submit_messages` accepted, as `handle.submissions`."""

    __slots__ = ("_do",)

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(self) -> Sequence[Submission]:
        """Return the submissions, oldest first: all that are open, and those among the last 256 turns that ended."""
        found: Sequence[Submission] = await self._do("list_submissions", Sequence[Submission], {})
        return found

    async def get(self, submission_id: str) -> Submission | None:
        """Return how a submission stands, however old it is; None for an unknown one."""
        return await self._one("get_submission", submission_id)

    async def cancel(self, submission_id: str) -> Submission | None:
        """Stop a submission, waiting or running, and return it; one that has ended stays as it ended."""
        return await self._one("cancel_submission", submission_id)

    async def _one(self, operation: str, submission_id: str) -> Submission | None:
        found: Submission | None = await self._do(operation, Submission | None, {"submission_id": submission_id})
        return found


class VersionsHandle(Generic[C_co]):
    """The versions of a conversation, as `handle.versions`."""

    __slots__ = ("_do", "_named")

    def __init__(self, do: Do, named: Callable[[str], ChatHandle[C_co]]) -> None:
        self._do, self._named = do, named

    async def list(self, message_id: str) -> Sequence[Version]:
        """Return the versions of a message, oldest first: the message, its regenerations, its edits."""
        found: Sequence[Version] = await self._do("list_versions", Sequence[Version], {"message_id": message_id})
        return found

    async def switch(self, version: int | str) -> None:
        """Show another version, and the newest of what followed it, in every tab; see `Versions.switch`."""
        await self._do("switch_version", None, {"version": version})

    async def fork(self, message_id: str, name: str) -> ChatHandle[C_co]:
        """Copy the conversation up to a message into a new agent of this class; the two are independent from then on.

        Raises:
            Rejected: the message is unknown or still being written, or the other agent has messages.
        """
        await self._do("fork", None, {"message_id": message_id, "name": name})
        return self._named(name)
