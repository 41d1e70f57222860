"""What lists show of one agent's conversation, and the approvals that it waits for, for the agent's own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType

from ...core.commands import AnswerToolCall, ChangeConversation, MarkRead
from ...core.state import State
from ...errors import Rejected
from ...events import CallAnswered, TitleSource, to_raw
from ...ids import AgentId, CallId, Generation, TurnId, root_id
from ...log.features import CONVERSATIONS, is_usable
from ...messages.message import UIMessage
from ...messages.tool_calls import ApprovalAnswer, is_tool_part
from ...principals import acting_for
from ...rows import ApprovalRecord, Participant
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
        generation: Generation | None = None,
    ) -> None:
        """Set what lists show. What is left out stays. A model's title is about the messages of a generation.

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
            generation=generation,
        )
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(command)

    async def mark_read(self, principal: str, messages: int | None) -> None:
        """Record how many messages a principal has read; None for all."""
        await self._check_usable()
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(MarkRead(principal, messages))

    async def presence(self, known: list[Any] | None) -> list[Participant]:
        """Return the connected principals; with `known` (ids and names), once they differ, or after half a minute."""
        presence = self._directory.presence
        if known is None:
            return presence.principals(self._agent)
        return await presence.changed_from(self._agent, [Participant(*who) for who in known])

    def watchers(self) -> list[Participant]:
        """Return the principals that are connected to the agent, or to the root agent above it."""
        presence = self._directory.presence
        agents = dict.fromkeys((root_id(self._agent), self._agent))
        return list({each.id: each for agent in agents for each in presence.principals(agent)}.values())

    def loaded_for(self) -> int:
        """Return for how many milliseconds the agent has been loaded."""
        loaded = self._directory.peek(self._agent)
        return self._directory.clock.now() - loaded.loaded_at if loaded is not None else 0

    async def waiting(self, turn: TurnId, call: CallId) -> ApprovalRecord | None:
        """Return a call of a turn that waits for an approval; None if it was answered, expired or removed."""
        async with self._directory.attach(self._agent) as loaded:
            found = await loaded.actor.inspect(lambda state: _request(state, call, lambda each: each.turn == turn))
        return found if found is not None and found.status == "waiting" else None

    async def newest_text(self, turn: TurnId) -> str:
        """Return the text of a turn's answer behind its last tool call; all of its text if there is none behind it."""
        async with self._directory.attach(self._agent) as loaded:
            body = await loaded.actor.inspect(lambda state: _answer_of(state, turn))
        if body is None:
            return ""
        parts = UIMessage.decode(body).parts
        last_call = max((index for index, part in enumerate(parts) if is_tool_part(part)), default=-1)
        behind = UIMessage("", "assistant", parts[last_call + 1 :]).text
        return behind or UIMessage("", "assistant", parts).text

    async def answer_approval(self, call: CallId, fingerprint: str, *, approved: bool, reason: str | None) -> bool:
        """Approve or deny a call; False if it does not wait for this approval (any more)."""
        answer = ApprovalAnswer(approved=approved, reason=reason)
        principal = acting_for()
        by = principal.id if principal is not None else None
        async with self._directory.attach(self._agent) as loaded:
            asked = await loaded.actor.inspect(
                lambda state: _request(state, call, lambda each: each.fingerprint == fingerprint)
            )
            if asked is None:
                return False
            command = AnswerToolCall(call, answer, random_request_id(), by=by, principal=principal, asked=asked)
            events = await loaded.actor.ask(command)
        return any(isinstance(event, CallAnswered) for event in events)

    async def _check_usable(self) -> None:
        if not await is_usable(CONVERSATIONS, self._directory.store.nodes):
            raise Rejected("unable to change the conversation; a node of an older release still runs. Try again later.")


def _request(state: State, call: CallId, is_it: Callable[[ApprovalRecord], bool]) -> ApprovalRecord | None:
    """Return a request for an approval of a call. Several wait if a model repeated the id."""
    return next((each for each in state.waiting.values() if each.call == call and is_it(each)), None)


def _answer_of(state: State, turn: TurnId) -> bytes | None:
    """Return the message that a turn wrote; None if it was removed, or if the turn is not remembered any more."""
    found = state.find(turn)
    place = state.tree.nodes.get(found.node) if found is not None else None
    return place.shown if place is not None else None
