"""`app.approvals`: the calls of all agents that wait for a person, and those that were settled."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...errors import AlreadyAnswered, BadInput
from ...ids import AgentId, Millis, agent_id, root_id, split_agent_id
from ...messages.tool_calls import LONGEST_REASON
from ...principals import Principal
from ...runtime.api.lists import ApprovalQuery, ApprovalStatus, ListedApproval, Participant
from ..kinds import agent_kind
from .conversations import read_cursor, write_cursor

if TYPE_CHECKING:
    from ..agent import Agent
    from .app_handle import AppHandle

__all__ = ["Approval", "ApprovalPage", "Approvals", "approval_of", "may_approve"]

MOST: Final = 200
MOST_PAGES: Final = 5

_Id = tuple[AgentId, str, str]
"""What the id of an approval has: the agent, the call, and the fingerprint of the request."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for an approval, or was settled. Times are seconds since 1970."""

    id: str
    """What `answer` takes. It names the call with these arguments; it is no secret and gives no permission."""
    kind: str
    name: str
    """Kind and name of the conversation. The call may be of an agent below it."""
    owner: str | None
    tool: str
    input: Any
    """The arguments, as JSON."""
    status: ApprovalStatus
    asked_at: float
    asked_by: Participant | None
    """The principal whose question led to the call."""
    summary: str | None = None
    risk: str | None = None
    approvers: Sequence[str] = ()
    expires_at: float | None = None
    settled_at: float | None = None
    settled_by: Participant | None = None
    reason: str | None = None
    agent: str = ""
    """The id of the agent that asks."""
    message_id: str = ""
    call: str = ""
    """The id of the call: `toolCallId` of its part in the message."""


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Some approvals, and the cursor of the next page; None at the end."""

    approvals: Sequence[Approval]
    cursor: str | None = None


def may_approve(principal: Principal, approvers: Sequence[str]) -> bool:
    """Tell whether a principal is one of a tool's `approvers`: by its id, or by a role in `claims["roles"]`.

    Without approvers, every principal that may answer calls is one.
    """
    if not approvers or principal.id in approvers:
        return True
    roles = principal.claims.get("roles")
    return isinstance(roles, list | tuple) and any(role in approvers for role in roles)


class Approvals:
    """The approvals of an app. It is for trusted code: nothing here asks `authorize`. The HTTP resource does."""

    __slots__ = ("_app",)

    def __init__(self, app: AppHandle) -> None:
        self._app = app

    async def list(
        self,
        *,
        principal: Principal | str | None = None,
        conversation: tuple[type[Agent] | str, str] | None = None,
        settled: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> ApprovalPage:
        """Return calls that wait for a person, oldest first; or with `settled` those that were, newest first.

        Args:
            principal: Only those of conversations that this principal owns; None for all.
            conversation: Only those of one conversation, as (kind, name).
            settled: The record of what was approved, denied or expired: by whom, when, and with which arguments.
            cursor: `cursor` of the page before.
            limit: Approvals in the page, 1 to 200.

        Raises:
            BadInput: the cursor is not one, or the limit is out of range.
        """
        found = await self._placed(
            principal=principal, conversation=conversation, settled=settled, cursor=cursor, limit=limit
        )
        return ApprovalPage([each for each, _ in found], found[-1][1] if len(found) == limit else None)

    async def _placed(
        self,
        *,
        principal: Principal | str | None = None,
        conversation: tuple[type[Agent] | str, str] | None = None,
        settled: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Sequence[tuple[Approval, str]]:
        """Return what `list` returns: each call with the cursor of what comes after it."""
        if not 1 <= limit <= MOST:
            raise BadInput(f"unable to list approvals; limit is {limit}, and 1 to {MOST} are allowed")
        query = ApprovalQuery(
            owner=principal.id if isinstance(principal, Principal) else principal,
            root=self._root(*conversation) if conversation is not None else None,
            is_settled=settled,
            after=read_cursor(cursor, tuple[Millis, AgentId, str], "a cursor") if cursor is not None else None,
            limit=limit,
        )
        found = await self._app._calls.lists.approvals(query)
        return [(self._shown(each), write_cursor(*each.place)) for each in found]

    async def get(self, id: str) -> Approval | None:
        """Return a call that waits, or was settled: `status` says which. None if it was withdrawn, or never asked.

        Of the settled calls of a conversation, the newest thousand are found.
        """
        agent, call, fingerprint = read_cursor(id, _Id, "the id of an approval")
        for is_settled in (False, True):
            query = ApprovalQuery(root=root_id(agent), is_settled=is_settled, limit=MOST)
            for _ in range(MOST_PAGES):
                found = await self._app._calls.lists.approvals(query)
                for each in found:
                    if (each.agent, each.record.call, each.record.fingerprint) == (agent, call, fingerprint):
                        return self._shown(each)
                if len(found) < MOST:
                    break
                query = msgspec.structs.replace(query, after=found[-1].place)
        return None

    async def answer(self, id: str, approved: bool, *, by: Principal | None = None, reason: str | None = None) -> None:
        """Approve or deny a call, for a principal. It runs, or is refused, whether or not a client is connected.

        Raises:
            AlreadyAnswered: another answer was first, or its time is over. Nothing happened; the text says whose answer
                counts.
            BadInput: the id is not one of an approval, or the reason is too long.
        """
        if reason is not None and len(reason) > LONGEST_REASON:
            raise BadInput(f"unable to answer; a reason has at most {LONGEST_REASON} characters")
        agent, call, fingerprint = read_cursor(id, _Id, "the id of an approval")
        known = await self.get(id)
        if known is None or known.status != "waiting":
            raise AlreadyAnswered(f"unable to answer; {self._why_settled(known)}")
        handle: Any = self._app._handle_at(agent)
        if by is not None:
            handle = handle.for_principal(by)
        given = {"call": call, "fingerprint": fingerprint, "approved": approved, "reason": reason}
        if not await handle._do("answer_approval", bool, given):
            raise AlreadyAnswered(f"unable to answer; {self._why_settled(await self.get(id))}")

    async def watch(
        self, *, principal: Principal | str | None = None, limit: int = 100
    ) -> AsyncGenerator[ApprovalPage, None]:
        """Yield the calls that wait, now and after each change: the first page, oldest first."""
        before: ApprovalPage | None = None
        async with aclosing(self._changes()) as changes:
            async for _ in changes:
                page = await self.list(principal=principal, limit=limit)
                if page != before:
                    yield page
                before = page

    async def _changes(self) -> AsyncGenerator[bool, None]:
        """Yield now, and whenever a call may have begun or ceased to wait."""
        with self._app._calls.lists.watching() as watcher:
            while True:
                yield True
                await watcher.next()

    def _why_settled(self, approval: Approval | None) -> str:
        """Return why an answer to a call came too late."""
        waits = approval is not None and approval.status == "waiting"
        is_over = approval is not None and (approval.expires_at or math.inf) * 1000 <= self._app._calls.lists.now()
        if approval is None or (waits and not is_over):
            return "the call does not wait for an approval any more"
        if waits or approval.status == "expired":  # it waits for its expiry, which is a moment late
            return "the time for it is over"
        who = approval.settled_by
        return f"{(who.name or who.id) if who is not None else 'the app'} {approval.status} this call before"

    def _root(self, kind: type[Agent] | str, name: str) -> AgentId:
        return agent_id(agent_kind(self._app._class(kind)), name)

    def _shown(self, each: ListedApproval) -> Approval:
        kind, name = split_agent_id(root_id(each.agent))
        cls = self._app.class_of_kind(kind)
        return approval_of(each, agent_kind(cls) if cls is not None else kind, name)


def approval_of(each: ListedApproval, kind: str, name: str) -> Approval:
    """Return a call of the conversation with this kind and name, as apps see it."""
    record = each.record
    return Approval(
        id=write_cursor(each.agent, record.call, record.fingerprint),
        kind=kind,
        name=name,
        owner=each.owner,
        tool=record.tool,
        input=msgspec.json.decode(bytes(record.input)),
        status=record.status,
        asked_at=record.asked_at / 1000,
        asked_by=record.asked_by,
        summary=record.summary,
        risk=record.risk,
        approvers=tuple(record.approvers),
        expires_at=_seconds(record.expires_at),
        settled_at=_seconds(record.settled_at),
        settled_by=record.settled_by,
        reason=record.reason,
        agent=each.agent,
        message_id=record.message_id,
        call=record.call,
    )


def _seconds(at: Millis | None) -> float | None:
    return None if at is None else at / 1000
