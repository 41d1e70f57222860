"""Lists over all agents; see `migrations/0005_lists.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ids import AgentId, Millis, root_id
from ...log.lists import (
    ApprovalQuery,
    ConversationQuery,
    find_text,
    find_waiting_roots,
    select_approvals,
    select_conversations,
    texts_of,
)
from ...rows import CONVERSATION, SHARE, KeptRow, decode_text, encode_listed
from .server import Call, statement
from .tables import Row, rows

__all__: list[str] = []


def _rows(call: Call) -> list[tuple[AgentId, KeptRow]]:
    agents = call.tables.agents
    kept = [(key, KeptRow(*place, body)) for key, found in call.tables.kept.items() for place, body in found.items()]
    listed = [(key, row) for key, found in call.tables.listed.items() for row in found.values()]
    return [(AgentId(agents[key].id), row) for key, row in (*kept, *listed) if key in agents]


def _page(call: Call, owner: str | None, archived: bool, at: int, agent: str, *values: Any) -> list[Row]:
    status, kinds, limit, *terms = values
    words = [word for term in terms for word in _words(term)]
    query = ConversationQuery(owner, kinds, status, archived, (Millis(at), AgentId(agent)), words, limit)
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


def _words(terms: str | Sequence[str]) -> list[str]:
    """Return the words of terms of a text search; that which may be the beginning of a word comes last."""
    given = [terms] if isinstance(terms, str) else terms
    return [term.removesuffix(":*").strip("'") for term in sorted(given, key=lambda term: term.endswith(":*"))]


@statement("count_texts")
async def count_texts(call: Call, terms: Sequence[str], most: int) -> list[Row]:
    """No word is rare: a search of all conversations finds the same."""
    return rows("count", [[most] for _ in terms])


@statement("search_all")
async def search_all(call: Call, *values: Any) -> list[Row]:
    return _page(call, *values)


@statement("ids_with_words")
async def ids_with_words(call: Call, agents: Sequence[str], terms: Sequence[str]) -> list[Row]:
    return rows("id", [[row["id"]] for row in await found_texts(call, agents, terms)])


@statement("found_texts")
async def found_texts(call: Call, agents: Sequence[str], terms: Sequence[str]) -> list[Row]:
    texts = [(each, find_text((r for a, r in _rows(call) if a == each), _words(terms))) for each in agents]
    return rows("id body", [[each, text.encode()] for each, text in texts if text is not None])


@statement("texts")
async def texts(call: Call, agent: str) -> list[Row]:
    found = texts_of(row for each, row in _rows(call) if each == agent)
    decoded = [(int(row.key), *decode_text(row.body or b"")) for row in found]
    return rows("node words body", [[node, words, text.encode()] for node, words, text in decoded])


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
    changed = [[now, each, True, now, None] for each in {each for each, _ in _rows(call)}]
    return rows("now_ms id is_listed at owner", [[now, None, None, None, None], *changed])


@statement("find_share")
async def find_share(call: Call, digest: str) -> list[Row]:
    found = [(each, row) for each, row in _rows(call) if row.kind == SHARE and row.key == digest]
    return rows("id body", [[each, row.body] for each, row in found])
