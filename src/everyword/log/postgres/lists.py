"""The lists of the database, read by its readers. Triggers write them (`migrations/0005_lists.sql`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...ids import AgentId, Millis
from ...rows import ApprovalRecord, ConversationSummary, decode_listed, listed_owner
from ..lists import ApprovalQuery, ConversationQuery, ListedApproval, ListedConversation, conversation_statement
from .queries import Queries

__all__ = ["PostgresLists"]

END_OF_TIME: Final = 2**62


class PostgresLists:
    """Lists of all agents, whichever node owns them."""

    def __init__(self, queries: Callable[[], Queries]) -> None:
        self._queries = queries

    async def conversations(self, query: ConversationQuery) -> list[ListedConversation]:
        found: list[ListedConversation] = []
        name, owner = conversation_statement(query), listed_owner(query.owner) if query.owner is not None else None
        at, agent = query.before or (END_OF_TIME, "")
        kinds = None if query.kinds is None else list(query.kinds)
        for archived in (False, True) if query.archived is None else (query.archived,):
            values = owner, archived, at, agent, query.status, kinds, query.limit
            rows = await self._queries().listed(name, *values)
            found += [ListedConversation(AgentId(row["id"]), _summary(row["body"]), row["waits"]) for row in rows]
        found = [each for each in found if query.owner is None or each.summary.owner == query.owner]
        if query.archived is None:
            found.sort(key=lambda each: (each.summary.updated_at, each.agent.encode()), reverse=True)
        return found[: query.limit]

    async def find_conversation(self, agent: AgentId) -> ListedConversation | None:
        found = await self._queries().listed("find_conversation", agent)
        return ListedConversation(agent, _summary(found[0]["body"]), found[0]["waits"]) if found else None

    async def approvals(self, query: ApprovalQuery) -> list[ListedApproval]:
        name = "settled_approvals" if query.is_settled else "waiting_approvals"
        place: tuple[Any, ...] = query.after or (END_OF_TIME if query.is_settled else -1, "", "")
        owner = None if query.owner is None else listed_owner(query.owner)
        rows = await self._queries().listed(name, *place, owner, query.root, query.limit)
        found = [
            ListedApproval(AgentId(row["id"]), row["key"], decode_listed(row["body"], ApprovalRecord), _owner(row))
            for row in rows
        ]
        return [each for each in found if query.owner is None or each.owner == query.owner]

    async def changed_since(self, at: Millis) -> tuple[Millis, list[tuple[AgentId, Millis]]]:
        found = await self._queries().listed("lists_changed", at)
        return Millis(found[0]["now_ms"]), [(AgentId(row["id"]), Millis(row["at"])) for row in found if row["id"]]


def _summary(body: bytes) -> ConversationSummary:
    return decode_listed(body, ConversationSummary)


def _owner(row: Any) -> str | None:
    return _summary(row["above"]).owner if row["above"] is not None else None
