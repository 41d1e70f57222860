"""Reads and watches the lists of the running app's store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from ..core.record import ConversationRecord
from ..errors import BadInput, UsageError
from ..ids import AgentId, Millis
from ..log.lists import AgentLists, ApprovalQuery, ConversationQuery, ListedApproval, ListedConversation, SharedAgent
from .attachment_reader import AttachmentReader
from .directory import Directory
from .list_changes import ListWatcher
from .records import read_record

__all__ = ["Listings"]


class Listings:
    """The lists of an app, for its handles."""

    def __init__(self, running: Callable[[], Directory]) -> None:
        self._running = running

    async def conversations(self, query: ConversationQuery) -> list[ListedConversation]:
        """Return a page of conversations.

        Raises:
            BadInput: it is a search, and the app has none.
        """
        if query.words and not self._running().settings.app_rules.has_search:
            raise BadInput(
                "unable to search; the texts of this app's conversations are not indexed. "
                "Set Everyword(…, conversations=ConversationOptions(search=True))"
            )
        return await self._lists.conversations(query)

    async def find_conversation(self, agent: AgentId) -> ListedConversation | None:
        """Return the conversation of an agent, by its id of today or one that its class had before."""
        return await self._lists.find_conversation(await self._running().stored_ids.find(agent))

    async def find_changed(self, agent: AgentId) -> ListedConversation | None:
        """Return the conversation of an agent that a watcher was told of, by one reading for all watchers."""
        return await self._running().list_changes.read_once(agent, self.find_conversation)

    def was_owned(self, agent: AgentId, owner: str) -> bool:
        """Return whether a conversation that was deleted while there are watchers was this principal's."""
        return self._running().list_changes.was_owned(agent, owner)

    async def approvals(self, query: ApprovalQuery) -> list[ListedApproval]:
        """Return a page of calls that wait for an approval, or were settled."""
        if query.root is not None:  # its class may have had another kind
            query = msgspec.structs.replace(query, root=await self._running().stored_ids.find(query.root))
        return await self._lists.approvals(query)

    async def record(self, agent: AgentId) -> ConversationRecord:
        """Read the conversation of an agent from its log, wherever the agent is loaded, or if it is not.

        Raises:
            LogCorrupt: an event cannot be read.
        """
        return await read_record(self._running().store, await self._running().stored_ids.find(agent))

    async def attachments(self, agent: AgentId) -> AttachmentReader | None:
        """Return a reader of the attachments of a conversation; None if the app has no place for attachments."""
        attachments = self._running().attachments
        if attachments is None:
            return None
        return AttachmentReader(attachments, await self._running().stored_ids.find(agent))

    async def find_share(self, digest: str) -> SharedAgent | None:
        """Return the shared link whose token has this digest; None if there is none, or it was revoked."""
        return await self._lists.find_share(digest)

    def now(self) -> Millis:
        """Return the time by the app's clock."""
        return self._running().clock.now()

    def watching(self) -> AbstractContextManager[ListWatcher]:
        """Watch for changes while the block runs."""
        return self._running().list_changes.watching()

    @property
    def _lists(self) -> AgentLists:
        lists = self._running().store.lists
        if lists is None:
            raise UsageError("unable to list conversations; this store keeps no lists. Give it a `lists`.")
        return lists
