"""Files of one agent's conversation, for the agent's own code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from ...attachments.media_types import stored_type
from ...errors import AttachmentMissing, AttachmentRefused, UsageError
from ...ids import AgentId
from ...messages.attachments import large_data_urls, move_data_urls, referenced_by
from ...principals import acting_for
from ..attachment_reader import AttachmentReader
from ..attachments import Attachments
from ..directory import Directory

__all__ = ["AttachmentsAccess"]


class AttachmentsAccess:
    """The attachments of one agent's conversation."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    @property
    def gives_links(self) -> bool:
        """Whether models are given links, and not bytes."""
        attachments = self._directory.attachments
        return attachments is not None and attachments.rules.gives_links

    @property
    def data_url_limit(self) -> int | None:
        """How many characters of a `data:` URL stay in a message; None if there is no place for attachments."""
        attachments = self._directory.attachments
        return attachments.rules.inline_limit if attachments is not None else None

    async def put(self, content: bytes, media_type: str, filename: str | None) -> dict[str, Any]:
        """Store a content; return its file part.

        Raises:
            UsageError: the content may not be stored, or there is no place for attachments.
        """
        async with self._directory.attach(self._agent) as loaded:
            try:
                return await self._place().put(loaded.actor.agent, content, media_type, filename, acting_for())
            except AttachmentRefused as exc:
                raise UsageError(str(exc)) from exc

    @asynccontextmanager
    async def storing(self, message: dict[str, Any]) -> AsyncIterator[Collection[str]]:
        """Store the contents of large `data:` URLs of a message; yield their hashes, to commit it inside the block.

        Raises:
            AttachmentRefused: one of them may not be stored.
            AttachmentsUnavailable: the store cannot be used.
        """
        async with (
            self._directory.attach(self._agent) as loaded,
            self._place().storing(loaded.actor.agent, [message], sender=acting_for()) as moved,
        ):
            yield referenced_by(moved)

    def moved(self, message: dict[str, Any], stored: Collection[str]) -> dict[str, Any]:
        """Return the message with URLs in the place of contents; as it is, if one of them is not among the stored."""
        place, agent = self._place(), self._directory.stored_ids.known(self._agent)
        limit = place.rules.inline_limit
        if not large_data_urls(message, limit):
            return message
        (changed,), files = move_data_urls([message], limit, lambda sha256: place.url(agent, sha256), stored_type)
        return changed if all(file.sha256 in stored for file in files) else message

    async def read(self, sha256: str, limit: int | None = None) -> bytes | None:
        """Return a content; None if it has more than `limit` bytes.

        Raises:
            AttachmentMissing: it is not stored.
        """
        attachments, agent = self._place(), await self._directory.stored_ids.find(self._agent)
        if limit is not None:
            blob = await attachments.find(agent, sha256)
            if blob is not None and blob.size > limit:
                return None
        return b"".join([piece async for piece in attachments.read(agent, sha256)])

    def read_now(self, sha256: str, most: int) -> bytes | None:
        """Return a content without waiting, from a folder or from memory; None if it has more than `most` bytes.

        Raises:
            AttachmentMissing: it is not stored.
            UsageError: the store cannot be read without waiting.
        """
        agent = self._directory.stored_ids.known(self._agent)
        return AttachmentReader(self._place(), agent).read_now(sha256, most)

    async def link(self, sha256: str, seconds: float) -> str:
        """Return a link with which any client can read the content for this long."""
        attachments, agent = self._place(), await self._directory.stored_ids.find(self._agent)
        if await attachments.find(agent, sha256) is None:
            raise AttachmentMissing(f"unable to link to attachment {sha256}; it is not stored")
        expires = round(self._directory.clock.now() / 1000 + seconds)
        query = await attachments.signer.sign(agent, sha256, expires)
        return f"{attachments.url(agent, sha256)}?{query}"

    def _place(self) -> Attachments:
        attachments = self._directory.attachments
        if attachments is None:
            raise UsageError(
                "unable to use attachments; this app has no place for them. Give AttachmentOptions(store=…): a folder "
                "that all nodes share, or object storage"
            )
        return attachments
