"""The lists of a file: the rows of the tables `conversation` and `approval`, written and read."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from ...ids import AgentId, Millis, root_id, split_agent_id
from ...rows import (
    ALL_MESSAGES,
    CONVERSATION,
    SETTLED,
    TEXT,
    WAITING,
    ApprovalRecord,
    ConversationSummary,
    KeptRow,
    decode_listed,
    decode_text,
    encode_text,
    listed_columns,
    listed_owner,
)
from ..lists import RARE, ApprovalQuery, ConversationQuery, ListedApproval, ListedConversation, conversation_statement
from .queries import Reader
from .reader_pool import ReaderPool
from .statements import SQL

__all__ = ["SHOWN", "SqliteLists", "put_list_row", "put_text"]

SHOWN: Final = frozenset({CONVERSATION, WAITING, SETTLED})
"""The kinds of kept rows that lists show."""

END_OF_TIME: Final = 2**62

NODES: Final = 2**32
"""The nodes that an agent has in the numbers of its texts."""


def put_list_row(connection: sqlite3.Connection, agent: AgentId, key: int, row: KeptRow) -> None:
    """Write the row of a list that a kept row stands for. A conversation is that of a root agent."""
    columns = listed_columns(row.body) if row.body is not None else None
    if row.kind == CONVERSATION:
        if columns is None:
            connection.execute(SQL["clear_conversation"], (key,))
        elif root_id(agent) == agent:
            status, archived, updated, owner = columns
            kind = split_agent_id(agent)[0]
            values = key, agent, kind, status, int(archived), int(updated), owner, row.body
            connection.execute(SQL["put_conversation"], values)
    elif columns is None or (row.kind == WAITING and columns[0] != "waiting"):
        connection.execute(SQL["remove_approval"], (key, row.kind, row.key))
    else:
        record = key, row.kind, row.key, agent, root_id(agent), int(columns[1]), row.body
        connection.execute(SQL["put_approval"], record)


def put_text(connection: sqlite3.Connection, key: int, row: KeptRow) -> None:
    """Write a text that is searched. The one at `TITLE_KEY` is not that of a message."""
    if row.body is None:
        first, last = (1, NODES) if row.key == ALL_MESSAGES else (int(row.key),) * 2
        connection.execute(SQL["remove_texts"], (key * NODES + first, key * NODES + min(last, NODES - 1)))
        return
    words, text = decode_text(row.body)
    connection.execute(SQL["put_text"], (key * NODES + int(row.key), " ".join(words), text))


class SqliteLists:
    """Reads the lists of a file, with the connections of its readers."""

    def __init__(self, readers: ReaderPool) -> None:
        self._readers = readers

    async def conversations(self, query: ConversationQuery) -> list[ListedConversation]:
        found: list[ListedConversation] = []
        for archived in (False, True) if query.archived is None else (query.archived,):
            if query.words:
                found += await self._readers.run("the lists", partial(_search, query, archived))
                continue
            name, values = _conversation_statement(query, archived=archived)
            rows = await self._all(name, values)
            found += [ListedConversation(AgentId(agent), _summary(body), bool(waits)) for agent, body, waits in rows]
        found = [each for each in found if query.owner is None or each.summary.owner == query.owner]
        if query.archived is None:
            found.sort(key=lambda each: (each.summary.updated_at, each.agent.encode()), reverse=True)
        return found[: query.limit]

    async def find_conversation(self, agent: AgentId) -> ListedConversation | None:
        found = await self._all("find_conversation", (agent,))
        return ListedConversation(agent, _summary(found[0][1]), bool(found[0][2])) if found else None

    async def approvals(self, query: ApprovalQuery) -> list[ListedApproval]:
        at, agent, key = query.after or ((END_OF_TIME, "", "") if query.is_settled else (-1, "", ""))
        owner = None if query.owner is None else listed_owner(query.owner)
        values = at, agent, key, owner, query.root, query.limit
        rows = await self._all("settled_approvals" if query.is_settled else "waiting_approvals", values)
        found = [
            ListedApproval(AgentId(each), name, decode_listed(body, ApprovalRecord), _owner(above))
            for each, name, body, above in rows
        ]
        return [each for each in found if query.owner is None or each.owner == query.owner]

    async def changed_since(self, at: Millis) -> tuple[Millis, list[tuple[AgentId, Millis]]]:
        return at, []

    async def texts(self, agent: AgentId) -> list[KeptRow]:
        rows = await self._all("texts", (agent,))
        return [KeptRow(TEXT, str(node), encode_text(words.split(" "), text)) for node, words, text in rows]

    async def _all(self, name: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        def read(reader: Reader) -> list[tuple[Any, ...]]:
            return reader.rows(name, values)

        return await self._readers.run("the lists", read)


def _conversation_statement(query: ConversationQuery, *, archived: bool) -> tuple[str, Sequence[Any]]:
    at, agent = query.before or (END_OF_TIME, "")
    kinds = None if query.kinds is None else msgspec.json.encode(list(query.kinds)).decode()
    owner = listed_owner(query.owner) if query.owner is not None else None
    values = owner, int(archived), at, agent, query.status, kinds, query.limit
    return conversation_statement(query), values


def _search(query: ConversationQuery, archived: bool, reader: Reader) -> list[ListedConversation]:
    """Return a page of a search, among conversations that are archived or among those that are not."""
    terms = [f'"{word}"' for word in query.words]
    terms[-1] += "*"
    counts = [reader.rows("count_texts", (term, RARE))[0][0] for term in terms]
    rarest = min(range(len(terms)), key=counts.__getitem__)
    if not counts[rarest]:
        return []
    _, values = _conversation_statement(query, archived=archived)
    if counts[rarest] < RARE:
        others = msgspec.json.encode([*terms[:rarest], *terms[rarest + 1 :]]).decode()
        rows = reader.rows("search_rare", (*values, others, terms[rarest]))
    else:
        name = "search_by_time" if query.owner is None else "search_by_owner"
        rows = reader.rows(name, (*values, msgspec.json.encode(terms).decode()))
    return [
        ListedConversation(AgentId(id), _summary(body), bool(waits), _text(reader, key, terms))
        for id, body, waits, key in rows
    ]


def _text(reader: Reader, key: int, terms: Sequence[str]) -> str | None:
    """Return the text of a conversation that a search shows: a message with all words, with one, or the title."""
    first, last = key * NODES, key * NODES + NODES - 1
    for match, place in (
        (" AND ".join(terms), first + 1),
        (" OR ".join(terms), first + 1),
        (" OR ".join(terms), first),
    ):
        for (text,) in reader.rows("find_text", (match, place, last)):
            return str(text)
    return None


def _summary(body: bytes) -> ConversationSummary:
    return decode_listed(body, ConversationSummary)


def _owner(body: bytes | None) -> str | None:
    return _summary(body).owner if body is not None else None
