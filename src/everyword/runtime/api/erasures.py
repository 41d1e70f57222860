"""Erasures of principals, as handles know them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from ...core.erasure import Answered, Target
from ...ids import AgentId, Millis, NodeId
from ...log.lists import ListedConversation

__all__ = ["AgentErased", "ErasesPrincipals", "Erasure", "ErasureStep"]
__all__ += ["MessageRecord", "PersonalEvent", "ReadsPersonalData"]


class AgentErased(msgspec.Struct, frozen=True):
    """What was replaced in one agent."""

    counts: dict[str, int] = {}
    """How many things of each kind, such as `messages`."""
    states: int = 0
    """Old states that were deleted: the principal's words may have been in them."""
    problem: str | None = None
    """What could not be done, such as the agent's own clean-up."""


class ErasureStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an erasure does with one agent."""

    agent: str
    """Its id; of a deleted conversation only its kind, once it is deleted: the name may be personal."""
    action: Literal["delete", "rewrite"]
    is_done: bool = False
    counts: dict[str, int] = {}
    states: int = 0
    problem: str | None = None
    """Why it could not be done, or not completely."""
    answered: list[Answered] = []
    """Until it is done: calls whose answers the agent has copies of, see `Target.answered`."""


class Erasure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An erasure. `principal` and `salt` are empty once it is complete."""

    alias: str
    started_at: Millis
    with_answers: bool = False
    principal: str = ""
    salt: str = ""
    node: int = 0
    """The incarnation of the node that does it; 0 for a store of one process."""
    ended_at: Millis | None = None
    left: str | None = None
    """What the operator has to do."""

    @property
    def target(self) -> Target:
        return Target(self.principal, self.alias, bytes.fromhex(self.salt), self.with_answers)


class ErasesPrincipals(Protocol):
    """The erasures of an app."""

    async def erase(self, principal: str, *, with_answers: bool = False) -> tuple[Erasure, Sequence[ErasureStep]]:
        """Erase a principal; go on with an erasure of it that was not completed."""
        ...

    async def all(self) -> list[tuple[Erasure, Sequence[ErasureStep]]]:
        """Return the erasures that the store has notes of."""
        ...


class MessageRecord(NamedTuple):
    """A message of an agent, on any branch; its body is JSON."""

    node: NodeId
    parent: NodeId | None
    at: Millis
    body: bytes


class PersonalEvent(NamedTuple):
    """An event of a log; its body is JSON."""

    at: Millis
    body: bytes


class ReadsPersonalData(Protocol):
    """Reads what is stored about a principal."""

    def owned(self, principal: str) -> AsyncIterator[ListedConversation]:
        """Yield the conversations that the principal owns."""
        ...

    async def family(self, root: AgentId) -> list[AgentId]:
        """Return an agent and all agents below it."""
        ...

    async def mentioning(self, principal: str) -> list[AgentId]:
        """Return the agents whose logs mention the principal."""
        ...

    async def conversation(self, agent: AgentId) -> ListedConversation | None:
        """Return the conversation that an agent belongs to."""
        ...

    async def messages(self, agent: AgentId) -> list[MessageRecord]:
        """Return all messages of an agent."""
        ...

    async def attachments(self, root: AgentId) -> list[str]:
        """Return the hashes of the attachments that are stored for a conversation."""
        ...

    def content(self, agent: AgentId, sha256: str) -> AsyncIterator[bytes]:
        """Yield an attachment in pieces; nothing if it is not stored."""
        ...

    async def has_tables(self, agent: AgentId) -> bool:
        """Tell whether an agent has an SQL database."""
        ...

    def events(self, agent: AgentId, principal: str) -> AsyncIterator[PersonalEvent]:
        """Yield the events of a log."""
        ...

    def parts(self, agent: AgentId, principal: str) -> AsyncIterator[tuple[Millis, dict[str, Any]]]:
        """Yield the principal's parts of the log of another owner's conversation."""
        ...
