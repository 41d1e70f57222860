"""Lists over all agents; see `migrations/0005_lists.sql`."""

from __future__ import annotations

from typing import Any

from ...ids import AgentId, Millis, root_id
from ...log.lists import ApprovalQuery, ConversationQuery, find_waiting_roots, select_approvals, select_conversations
from ...rows import CONVERSATION, KeptRow, encode_listed
from .server import Call, statement
from .tables import Row, rows

__all__: list[str] = []


def _rows(call: Call) -> list[tuple[AgentId, KeptRow]]:
    return [
        (AgentId(agent.id), KeptRow(kind, name, body))
        for table in (call.tables.kept, call.tables.listed)
        for key, found in table.items()
        for (kind, name), body in found.items()
        if (agent := call.tables.agents.get(key)) is not None
    ]


def _page(call: Call, owner: str | None, archived: bool, at: int, agent: str, *values: Any) -> list[Row]:
    status, kinds, limit = values
    query = ConversationQuery(owner, kinds, status, archived, (Millis(at), AgentId(agent)), limit)
    found = select_conversations(_rows(call), query)
    return rows("id body waits", [[each.agent, encode_listed(each.summary), each.waits] for each in found])


@statement("conversations_by_owner")
async def conversations_by_owner(call: Call, *values: Any) -> list[Row]:
    return _page(call, *values)


@statement("conversations_by_status")
async def conversations_by_status(call: Call, *values: Any) -> list[Row]:
    return _page(call, *values)


@statement("conversations_by_time")
async def conversations_by_time(call: Call, *values: Any) -> list[Row]:
    return _page(call, *values)


@statement("conversations_waiting")
async def conversations_waiting(call: Call, *values: Any) -> list[Row]:
    return _page(call, *values)


@statement("find_conversation")
async def find_conversation(call: Call, agent: str) -> list[Row]:
    found = [row for each, row in _rows(call) if each == agent and row.kind == CONVERSATION]
    waits = agent in find_waiting_roots(_rows(call))
    return rows("id body waits", [[agent, row.body, waits] for row in found])


@statement("waiting_approvals")
async def waiting_approvals(call: Call, *values: Any) -> list[Row]:
    return _approvals(call, *values, is_settled=False)


@statement("settled_approvals")
async def settled_approvals(call: Call, *values: Any) -> list[Row]:
    return _approvals(call, *values, is_settled=True)


def _approvals(
    call: Call, at: int, agent: str, key: str, owner: str | None, root: Any, limit: int, *, is_settled: bool
) -> list[Row]:
    query = ApprovalQuery(owner, root, is_settled, (Millis(at), AgentId(agent), key), limit)
    above = {each: row.body for each, row in _rows(call) if row.kind == CONVERSATION}
    found = select_approvals(_rows(call), query)
    values = [[e.agent, e.key, encode_listed(e.record), above.get(root_id(e.agent))] for e in found]
    return rows("id key body above", values)


@statement("lists_changed")
async def lists_changed(call: Call, since: int) -> list[Row]:
    now = int(call.now)
    return rows("now_ms id at", [[now, None, None], *([now, each, now] for each in {each for each, _ in _rows(call)})])
