"""Reads attachments of one conversation for an export, on any node and in commands."""

from __future__ import annotations

from ..ids import AgentId
from .attachments import Attachments

__all__ = ["AttachmentReader"]


class AttachmentReader:
    """The attachments of one agent's conversation. It needs no lease: contents never change."""

    def __init__(self, attachments: Attachments, agent: AgentId) -> None:
        self._attachments, self._agent = attachments, agent

    async def read(self, sha256: str, most: int) -> bytes | None:
        """Return a content; None if it has more than `most` bytes.

        Raises:
            AttachmentMissing: it is not stored.
            AttachmentsUnavailable: the store cannot be used.
        """
        blob = await self._attachments.find(self._agent, sha256)
        if blob is not None and blob.size > most:
            return None
        return b"".join([piece async for piece in self._attachments.read(self._agent, sha256)])

    def read_now(self, sha256: str, most: int) -> bytes | None:
        """Do the same without waiting.

        Raises:
            AttachmentMissing: it is not stored.
            AttachmentsUnavailable: the store cannot be used.
            UsageError: the store cannot be read without waiting.
        """
        content = self._attachments.read_now(self._agent, sha256, most + 1)
        return content if len(content) <= most else None
