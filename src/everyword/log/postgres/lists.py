"""The lists of the database, read by its readers. Triggers write them (`0005_lists.sql`, `0006_search.sql`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...ids import AgentId, Millis
from ...rows import TEXT, ApprovalRecord, ConversationSummary, KeptRow, decode_listed, encode_text, listed_owner
from ..lists import (
    LOOKED_AT,
    RARE,
    ApprovalQuery,
    ConversationQuery,
    ListChange,
    ListedApproval,
    ListedConversation,
    SharedAgent,
    conversation_statement,
    decode_share,
)
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
        counts = await self._counts(query)
        for archived in (False, True) if query.archived is None else (query.archived,):
            values = owner, archived, at, agent, query.status, kinds, query.limit
            if query.words:
                found += await self._search(query, counts, values)
                continue
            rows = await self._queries().listed(name, *values)
            found += [ListedConversation(AgentId(row["id"]), _summary(row["body"]), row["waits"]) for row in rows]
        found = [each for each in found if query.owner is None or each.summary.owner == query.owner]
        if query.archived is None:
            found = [*{each.agent: each for each in found}.values()]  # one may have been archived meanwhile
            found.sort(key=lambda each: (each.summary.updated_at, each.agent.encode()), reverse=True)
        return found[: query.limit]

    async def _counts(self, query: ConversationQuery) -> list[int]:
        """Return how many texts have each word, or `RARE`."""
        if not query.words:
            return []
        return [row["count"] for row in await self._queries().listed("count_texts", _terms(query), RARE)]

    async def _search(
        self, query: ConversationQuery, counts: list[int], values: tuple[Any, ...]
    ) -> list[ListedConversation]:
        terms = _terms(query)
        rarest = min(range(len(terms)), key=counts.__getitem__)
        if not counts[rarest]:
            return []
        if counts[rarest] < RARE:
            others = [*terms[:rarest], *terms[rarest + 1 :]]
            rows = await self._queries().listed("search_rare", *values, others, terms[rarest])
        else:
            *selected, limit = values
            listed = await self._queries().listed(conversation_statement(query), *selected, LOOKED_AT)
            found = await self._queries().listed("ids_with_words", [row["id"] for row in listed], terms)
            ids = {row["id"] for row in found}
            rows = [row for row in listed if row["id"] in ids][:limit]
            if len(rows) < limit and len(listed) == LOOKED_AT:
                rows = await self._queries().listed("search_all", *values, terms)
        texts = await self._queries().listed("found_texts", [row["id"] for row in rows], terms)
        shown = {row["id"]: row["body"].decode() for row in texts}
        return [ListedConversation(AgentId(r["id"]), _summary(r["body"]), r["waits"], shown.get(r["id"])) for r in rows]

    async def texts(self, agent: AgentId) -> list[KeptRow]:
        found = await self._queries().listed("texts", agent)
        texts = [(row["node"], sorted(row["words"]), row["body"].decode()) for row in found]
        return [KeptRow(TEXT, str(node), encode_text(words, text)) for node, words, text in texts]

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

    async def find_share(self, digest: str) -> SharedAgent | None:
        found = await self._queries().listed("find_share", digest)
        return decode_share(found[0]["id"], found[0]["body"]) if found else None

    async def changed_since(self, at: Millis) -> tuple[Millis, list[ListChange]]:
        found = await self._queries().listed("lists_changed", at)
        return Millis(found[0]["now_ms"]), [ListChange(*tuple(row)[1:]) for row in found if row["id"] is not None]


def _terms(query: ConversationQuery) -> list[str]:
    """Return the words as terms of the database's text search. They have only letters, digits and marks."""
    terms = [f"'{word}'" for word in query.words]
    return [*terms[:-1], f"{terms[-1]}:*"]


def _summary(body: bytes) -> ConversationSummary:
    return decode_listed(body, ConversationSummary)


def _owner(row: Any) -> str | None:
    return _summary(row["above"]).owner if row["above"] is not None else None
