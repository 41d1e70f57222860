"""What lists show of one agent's conversation, and the approvals that it waits for, for the agent's own code."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ...core.commands import AnswerToolCall, ChangeConversation, MarkRead
from ...errors import Rejected
from ...events import CallAnswered, TitleSource, to_raw
from ...ids import AgentId, CallId
from ...log.features import CONVERSATIONS, is_usable
from ...messages.tool_calls import ApprovalAnswer
from ...principals import acting_for
from ...rows import Participant
from ..directory import Directory
from ..random_ids import random_request_id

__all__ = ["ConversationAccess"]


class ConversationAccess:
    """One agent's conversation in the lists."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def change(
        self,
        *,
        title: str | UnsetType | None = UNSET,
        titled_by: TitleSource = "person",
        owner: str | UnsetType | None = UNSET,
        archived: bool | UnsetType = UNSET,
        metadata: dict[str, Any] | None = None,
        keep_for: int | UnsetType | None = UNSET,
    ) -> None:
        """Set what lists show. What is left out stays.

        Raises:
            Rejected: there is no conversation yet, or a node runs that does not know the event.
        """
        await self._check_usable()
        command = ChangeConversation(
            title=title,
            titled_by=titled_by,
            owner=owner,
            archived=archived,
            metadata=to_raw(metadata),
            keep_for=keep_for,
            principal=acting_for(),
        )
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(command)

    async def mark_read(self, principal: str, messages: int | None) -> None:
        """Record how many messages a principal has read; None for all."""
        await self._check_usable()
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(MarkRead(principal, messages))

    async def presence(self, known: list[Any] | None) -> list[Participant]:
        """Return the connected principals; with `known` (ids and names), as soon as they are others, or in a while."""
        presence = self._directory.presence
        if known is None:
            return presence.principals(self._agent)
        return await presence.changed_from(self._agent, [Participant(*who) for who in known])

    async def answer_approval(self, call: CallId, *, approved: bool, reason: str | None) -> bool:
        """Approve or deny a call; False if it does not wait for an approval: another answer was first."""
        answer = ApprovalAnswer(approved=approved, reason=reason)
        principal = acting_for()
        by = principal.id if principal is not None else None
        command = AnswerToolCall(call, answer, random_request_id(), by=by, principal=principal)
        async with self._directory.attach(self._agent) as loaded:
            if not await loaded.actor.inspect(lambda state: call in state.waiting):
                return False
            events = await loaded.actor.ask(command)
        return any(isinstance(event, CallAnswered) for event in events)

    async def _check_usable(self) -> None:
        if not await is_usable(CONVERSATIONS, self._directory.store.nodes):
            raise Rejected("unable to change the conversation; a node of an older release still runs. Try again later.")
