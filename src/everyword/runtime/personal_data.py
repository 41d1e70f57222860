"""Reads what is stored about a principal, log by log, for an access request. Takes no lease and changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import msgspec

from ..attachments.keys import folder_of, hash_in
from ..core.erasure import FORKED, Answered, Eraser, Target, copied_answers
from ..core.personal_data import personal_part
from ..errors import LogCorrupt
from ..events import Chunk, Event, FiberEnded, Identity, JobEnded, MessagesPut, TurnEnded, decode_event
from ..ids import AgentId, Millis, Seq, children_prefix, root_id
from ..log.lists import ConversationQuery, ListedConversation
from .agent_erasure import erasure_of
from .api.erasures import MessageRecord, PersonalEvent
from .directory import Directory

__all__ = ["PersonalData", "copies_of_answers"]

PAGE = 500


class PersonalData:
    """The data of a principal in the store of the running app."""

    def __init__(self, running: Callable[[], Directory]) -> None:
        self._running = running

    async def owned(self, principal: str) -> AsyncIterator[ListedConversation]:
        """Yield the conversations that the principal owns."""
        lists, before, seen, was_known = self._running().store.lists, None, set[AgentId](), True
        while lists is not None:
            page = await lists.conversations(ConversationQuery(owner=principal, before=before, limit=PAGE))
            for each in page:
                if each.agent not in seen:
                    seen.add(each.agent)
                    was_known = False
                    yield each
            if len(page) == PAGE:
                before = page[-1].summary.updated_at, page[-1].agent
            elif was_known or len(seen) < PAGE:
                return
            else:  # Again: one that changes while pages are read may be on none of them.
                before, was_known = None, True

    async def family(self, root: AgentId) -> list[AgentId]:
        """Return an agent and all agents below it."""
        return [root, *await self._running().store.agents(children_prefix(root))]

    async def mentioning(self, principal: str) -> list[AgentId]:
        """Return the agents whose logs mention the principal."""
        return await erasure_of(self._running()).mentioning(principal)

    async def conversation(self, agent: AgentId) -> ListedConversation | None:
        """Return the conversation that an agent belongs to."""
        lists = self._running().store.lists
        return await lists.find_conversation(root_id(agent)) if lists is not None else None

    async def messages(self, agent: AgentId) -> list[MessageRecord]:
        """Return all messages of an agent, those of inactive branches, too."""
        rows = (await self._running().store.conversation(agent))[1]
        return [MessageRecord(row.node, row.parent, row.at, row.draft or row.body or b"null") for row in rows]

    async def has_tables(self, agent: AgentId) -> bool:
        """Tell whether an agent has an SQL database."""
        databases = self._running().store.databases
        return databases is not None and await databases.has(agent)

    async def attachments(self, root: AgentId) -> list[str]:
        """Return the hashes of the attachments that are stored for a conversation."""
        attachments = self._running().attachments
        if attachments is None:
            return []
        keys = [blob.key async for blob in attachments.store.list(f"{folder_of(root)}/")]
        return sorted(sha256 for key in keys if (sha256 := hash_in(key)) is not None)

    async def content(self, agent: AgentId, sha256: str) -> AsyncIterator[bytes]:
        """Yield an attachment in pieces; nothing if it is not stored."""
        attachments = self._running().attachments
        if attachments is not None and await attachments.find(agent, sha256) is not None:
            async for piece in attachments.read(agent, sha256):
                yield piece

    async def events(self, agent: AgentId, principal: str) -> AsyncIterator[PersonalEvent]:
        """Yield the events of a log, as JSON: without chunks, texts of exceptions and other principals' claims."""
        async for at, event in self._log(agent):
            if isinstance(event, Chunk):
                continue  # the message has them
            if isinstance(event, TurnEnded | JobEnded | FiberEnded) and event.detail is not None:
                event = msgspec.structs.replace(event, detail=None)
            for field in ("principal", "by"):
                who = getattr(event, field, None)
                if isinstance(who, Identity) and who.id != principal:
                    event = msgspec.structs.replace(event, **{field: Identity(who.id, who.name)})
            yield PersonalEvent(at, msgspec.json.encode(event))

    async def parts(self, agent: AgentId, principal: str) -> AsyncIterator[tuple[Millis, dict[str, Any]]]:
        """Yield the principal's parts of the log of another owner's conversation."""
        eraser = Eraser(Target(principal, "erased", b"-"))
        async for at, event in self._log(agent):
            found = None if isinstance(event, Chunk) else personal_part(eraser, event)
            if found is not None:
                yield at, found

    async def _log(self, agent: AgentId) -> AsyncIterator[tuple[Millis, Event]]:
        async for each in _log_of(self._running(), agent):
            yield each


async def copies_of_answers(directory: Directory, principal: str) -> list[tuple[AgentId, list[Answered]]]:
    """Return the forks with messages in which the principal answered calls, each with these calls.

    A damaged log is left out: it is reported when it is to be rewritten.
    """
    mentioning, answered = erasure_of(directory).mentioning, set[Answered]()
    for agent in await mentioning(principal):
        answered |= await _answered(directory, agent, principal)
    if not answered:
        return []
    found = [(agent, await _copied(directory, agent, answered)) for agent in await mentioning(FORKED)]
    return [(agent, sorted(copied)) for agent, copied in found if copied]


async def _answered(directory: Directory, agent: AgentId, principal: str) -> set[Answered]:
    eraser = Eraser(Target(principal, "erased", b"-"))
    with suppress(LogCorrupt, AssertionError, KeyError, TypeError, ValueError):
        async for _, event in _log_of(directory, agent):
            eraser.rewrite(event)
    return eraser.answered


async def _copied(directory: Directory, agent: AgentId, answered: set[Answered]) -> set[Answered]:
    found = set[Answered]()
    with suppress(LogCorrupt):
        async for _, event in _log_of(directory, agent):
            if isinstance(event, MessagesPut):
                found |= copied_answers(event, answered)
    return found


async def _log_of(directory: Directory, agent: AgentId) -> AsyncIterator[tuple[Millis, Event]]:
    cursor = Seq(0)
    while page := await directory.store.read(agent, cursor, PAGE):
        for stored in page:
            try:
                yield stored.at, decode_event(stored.body)
            except msgspec.DecodeError as exc:
                raise LogCorrupt(f"unable to read {agent!r}; event {stored.seq} is damaged ({exc})") from exc
        cursor = page[-1].seq
