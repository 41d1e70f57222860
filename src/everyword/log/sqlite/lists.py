"""The lists of a file: the rows of the tables `conversation` and `approval`, written and read."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from ...ids import AgentId, Millis, root_id, split_agent_id
from ...rows import (
    CONVERSATION,
    SETTLED,
    TEXT,
    WAITING,
    ApprovalRecord,
    ConversationSummary,
    KeptRow,
    decode_listed,
    encode_text,
    listed_columns,
    listed_owner,
)
from ..lists import (
    ApprovalQuery,
    ConversationQuery,
    ListChange,
    ListedApproval,
    ListedConversation,
    SharedAgent,
    conversation_statement,
    decode_share,
)
from .queries import Reader
from .reader_pool import ReaderPool
from .searches import search_conversations
from .statements import SQL

__all__ = ["SHOWN", "SqliteLists", "put_list_row"]

SHOWN: Final = frozenset({CONVERSATION, WAITING, SETTLED})
"""The kinds of kept rows that lists show."""

END_OF_TIME: Final = 2**62


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


class SqliteLists:
    """Reads the lists of a file, with the connections of its readers."""

    def __init__(self, readers: ReaderPool) -> None:
        self._readers = readers

    async def conversations(self, query: ConversationQuery) -> list[ListedConversation]:
        rows = await self._readers.run("the lists", partial(_read_conversations, query))
        found = [
            ListedConversation(AgentId(agent), _summary(body), bool(waits), text) for agent, body, waits, text in rows
        ]
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

    async def find_share(self, digest: str) -> SharedAgent | None:
        found = await self._all("find_share", (digest,))
        return decode_share(*found[0]) if found else None

    async def changed_since(self, at: Millis) -> tuple[Millis, list[ListChange]]:
        return at, []

    async def texts(self, agent: AgentId) -> list[KeptRow]:
        rows = await self._all("texts", (agent,))
        return [KeptRow(TEXT, str(node), encode_text(words.split(" "), text)) for node, words, text in rows]

    async def _all(self, name: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        def read(reader: Reader) -> list[tuple[Any, ...]]:
            return reader.rows(name, values)

        return await self._readers.run("the lists", read)


def _read_conversations(query: ConversationQuery, reader: Reader) -> list[tuple[str, bytes, int, str | None]]:
    """Return id, body and `waits` of each conversation; of a search, the text to show, too."""
    found: list[tuple[str, bytes, int, str | None]] = []
    with reader.at_one_time():
        for archived in (False, True) if query.archived is None else (query.archived,):
            name, values = _conversation_statement(query, archived=archived)
            if query.words:
                found += search_conversations(query, name, values, reader)
            else:
                found += [(agent, body, waits, None) for agent, body, waits, _ in reader.rows(name, values)]
    return found


def _conversation_statement(query: ConversationQuery, *, archived: bool) -> tuple[str, Sequence[Any]]:
    at, agent = query.before or (END_OF_TIME, "")
    kinds = None if query.kinds is None else msgspec.json.encode(list(query.kinds)).decode()
    owner = listed_owner(query.owner) if query.owner is not None else None
    values = owner, int(archived), at, agent, query.status, kinds, query.limit
    return conversation_statement(query), values


def _summary(body: bytes) -> ConversationSummary:
    return decode_listed(body, ConversationSummary)


def _owner(body: bytes | None) -> str | None:
    return _summary(body).owner if body is not None else None
