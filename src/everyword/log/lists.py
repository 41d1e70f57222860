"""Lists over all agents: conversations, and calls that wait for an approval or got one.

Its rows are the kept rows of the kinds `conversation`, `waiting` and `settled`, so a list is as new as the last commit.
A search also reads the rows of the kind `text`: one for each message, and one for the title. A store reads the first
line of a row's body and no more (`rows.encode_listed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from ..ids import AgentId, Millis, root_id, split_agent_id
from ..rows import (
    CONVERSATION,
    SETTLED,
    SHARE,
    TEXT,
    TITLE_KEY,
    WAITING,
    ApprovalRecord,
    ConversationStatus,
    ConversationSummary,
    KeptRow,
    ShareRecord,
    decode_listed,
    decode_text,
)
from ..search_words import has_word

__all__ = ["AgentLists", "ApprovalQuery", "ConversationQuery", "ListChange", "ListedApproval", "ListedConversation"]
__all__ += ["SharedAgent"]
__all__ += ["LOOKED_AT", "RARE", "conversation_statement", "find_text", "find_waiting_roots", "select_approvals"]
__all__ += ["decode_share", "select_conversations", "select_share", "texts_of"]

RARE: Final = 10_000
"""A word is rare if fewer texts have it. A search with a rare word begins with its texts."""

LOOKED_AT: Final = 500
"""A search without a rare word first looks at so many of the newest conversations."""


class ListedConversation(msgspec.Struct, frozen=True):
    """A conversation in a list."""

    agent: AgentId
    summary: ConversationSummary
    waits: bool = False
    """Whether a call of its agent, or of an agent below it, waits for an approval."""
    text: str | None = None
    """Of a search: the first message with all the words, else the first with one of them, else the title."""

    @property
    def status(self) -> ConversationStatus:
        return "waiting" if self.waits else self.summary.status


class ListedApproval(msgspec.Struct, frozen=True):
    """A call in a list, with the owner of the conversation that it belongs to."""

    agent: AgentId
    """The agent that asks; it may be below the agent of the conversation."""
    key: str
    """The key of its row: unique within its agent and its status."""
    record: ApprovalRecord
    owner: str | None = None

    @property
    def place(self) -> tuple[Millis, AgentId, str]:
        """Its place in the list, for `ApprovalQuery.after`."""
        at = self.record.settled_at if self.record.settled_at is not None else self.record.asked_at
        return at, self.agent, self.key


class SharedAgent(msgspec.Struct, frozen=True):
    """A shared link, and the agent whose conversation it shows."""

    agent: AgentId
    share: ShareRecord


class ListChange(NamedTuple):
    """A change that a node made to the lists; two changes are never equal."""

    agent: AgentId
    """The root agent of the conversation."""
    is_listed: bool
    """Whether its row changed. If not, it was removed, or the calls of the conversation changed."""
    at: Millis
    """When, by the store's own clock."""
    owner: str | None = None
    """Of a conversation that was deleted: its owner, as `listed_owner` writes it."""


class ConversationQuery(msgspec.Struct, frozen=True):
    """Which conversations to list, the newest first. Fields that are None select all."""

    owner: str | None = None
    kinds: Sequence[str] | None = None
    status: str | None = None
    archived: bool | None = None
    before: tuple[Millis, AgentId] | None = None
    """The place after which the list continues: `updated_at` and agent of the last one of the page before."""
    words: Sequence[str] = ()
    """Only conversations that have all of these words (`search_words`); the last may be the beginning of a word."""
    limit: int = 50


class ApprovalQuery(msgspec.Struct, frozen=True):
    """Which calls to list: those that wait, oldest first; or those that were settled, newest first."""

    owner: str | None = None
    root: AgentId | None = None
    """Only calls of this root agent and of those below it."""
    is_settled: bool = False
    after: tuple[Millis, AgentId, str] | None = None
    """The place after which the list continues: time, agent and key of the last one of the page before."""
    limit: int = 50


class AgentLists(Protocol):
    """What a store lists over all its agents. Everything is read without a lease."""

    async def conversations(self, query: ConversationQuery) -> list[ListedConversation]:
        """Return a page of conversations by the time of their last change, newest first, then by id."""
        ...

    async def find_conversation(self, agent: AgentId) -> ListedConversation | None:
        """Return the conversation of a root agent; None if it has none."""
        ...

    async def approvals(self, query: ApprovalQuery) -> list[ListedApproval]:
        """Return a page of calls."""
        ...

    async def find_share(self, digest: str) -> SharedAgent | None:
        """Return the shared link whose token has this digest; None if there is none, or it was revoked."""
        ...

    async def changed_since(self, at: Millis) -> tuple[Millis, list[ListChange]]:
        """Return the present time, and the last changes that nodes made to root agents' rows since `at`.

        The times are those of the store's own clock. A store of one process returns no changes.
        """
        ...

    async def texts(self, agent: AgentId) -> list[KeptRow]:
        """Return the rows of kind `text` of an agent, by node; for tools."""
        ...


def conversation_statement(query: ConversationQuery) -> str:
    """Return the name of the statement that finds the conversations of a query by an index."""
    if query.status == "waiting":
        return "conversations_waiting"
    if query.owner is None:
        return "conversations_by_time"
    return "conversations_by_owner" if query.status in (None, "idle") else "conversations_by_status"


# -- the same for stores that have the rows in memory -----------------------------------------------------------------


def select_conversations(rows: Sequence[tuple[AgentId, KeptRow]], query: ConversationQuery) -> list[ListedConversation]:
    """Return the page that a query asks for, of all kept rows."""
    waiting = find_waiting_roots(rows)
    found = [
        ListedConversation(agent, decode_listed(row.body, ConversationSummary), agent in waiting)
        for agent, row in rows
        if row.kind == CONVERSATION and row.body is not None and root_id(agent) == agent
    ]
    wanted = [each for each in found if _is_wanted(each, query)]
    wanted.sort(key=lambda each: (each.summary.updated_at, each.agent.encode()), reverse=True)
    if not query.words:
        return wanted[: query.limit]
    texts: dict[AgentId, list[KeptRow]] = {}
    for agent, row in rows:
        if row.kind == TEXT:
            texts.setdefault(agent, []).append(row)
    found = [replace(each, text=find_text(texts.get(each.agent, ()), query.words)) for each in wanted]
    return [each for each in found if each.text is not None][: query.limit]


def texts_of(rows: Iterable[KeptRow]) -> list[KeptRow]:
    """Return the rows of kind `text` among those of an agent, by node."""
    return sorted((row for row in rows if row.kind == TEXT), key=lambda row: int(row.key))


def find_text(rows: Iterable[KeptRow], asked: Sequence[str]) -> str | None:
    """Return the text of an agent that a search shows; None if its texts do not have all the words."""
    missing, places, best = set(range(len(asked))), range(len(asked)), ((False, False), "")
    for row in texts_of(rows):
        words, text = decode_text(row.body or b"")
        known = set(words)
        found = {place for place in places if has_word(known, asked, place)}
        missing -= found
        rank = (row.key != TITLE_KEY, len(found) == len(asked))
        if found and (rank > best[0] or not best[1]):
            best = rank, text
    return None if missing else best[1]


def find_waiting_roots(rows: Sequence[tuple[AgentId, KeptRow]]) -> set[AgentId]:
    """Return the root agents of the calls that wait for an approval."""
    return {
        root_id(agent)
        for agent, row in rows
        if row.kind == WAITING and row.body is not None and decode_listed(row.body, ApprovalRecord).status == "waiting"
    }


def _is_wanted(each: ListedConversation, query: ConversationQuery) -> bool:
    summary, before = each.summary, query.before
    return (
        (query.owner is None or summary.owner == query.owner)
        and (query.kinds is None or split_agent_id(each.agent)[0] in query.kinds)
        and (query.status is None or each.status == query.status)
        and (query.archived is None or (summary.archived_at is not None) == query.archived)
        and (before is None or (summary.updated_at, each.agent.encode()) < (before[0], before[1].encode()))
    )


def select_approvals(rows: Sequence[tuple[AgentId, KeptRow]], query: ApprovalQuery) -> list[ListedApproval]:
    """Return the page that a query asks for, of all kept and listed rows."""
    owners = {
        agent: decode_listed(row.body, ConversationSummary).owner
        for agent, row in rows
        if row.kind == CONVERSATION and row.body is not None
    }
    kind = SETTLED if query.is_settled else WAITING
    found = [
        ListedApproval(agent, row.key, decode_listed(row.body, ApprovalRecord), owners.get(root_id(agent)))
        for agent, row in rows
        if row.kind == kind and row.body is not None
    ]
    found = [
        each
        for each in found
        if each.record.status != "announced"
        and (query.owner is None or each.owner == query.owner)
        and (query.root is None or root_id(each.agent) == query.root)
    ]
    found.sort(key=_place, reverse=query.is_settled)
    if query.after is not None:
        at, agent, key = query.after
        place = at, agent.encode(), key.encode()
        found = [each for each in found if (_place(each) < place if query.is_settled else _place(each) > place)]
    return found[: query.limit]


def _place(each: ListedApproval) -> tuple[Millis, bytes, bytes]:
    at, agent, key = each.place
    return at, agent.encode(), key.encode()


def select_share(rows: Sequence[tuple[AgentId, KeptRow]], digest: str) -> SharedAgent | None:
    """Return the shared link with this digest, of all kept rows."""
    for agent, row in rows:
        if row.kind == SHARE and row.key == digest and row.body is not None:
            return decode_share(agent, row.body)
    return None


def decode_share(agent: str, body: bytes) -> SharedAgent:
    """Return the shared link of a kept row's body."""
    return SharedAgent(AgentId(agent), msgspec.json.decode(body, type=ShareRecord))
