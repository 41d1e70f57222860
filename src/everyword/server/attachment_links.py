"""`app.attachments`: the attachments of all agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from ..agents import Agent, AgentAttachments, agent_kind
from ..ids import agent_id
from ..runtime.agent_runtime.agent_runtime import AgentRuntime
from ..runtime.attachment_sweep import AttachmentSweep
from .service import Service

__all__ = ["AppAttachments"]


class AppAttachments:
    """The attachments of an app that runs."""

    def __init__(self, service: Callable[[], Awaitable[Service]]) -> None:
        self._service = service

    async def of(self, agent: type[Agent[Any]] | str, name: str) -> AgentAttachments:
        """Return the attachments of one agent, by its class or kind and its name: as `self.attachments` there."""
        service = await self._service()
        kind = agent if isinstance(agent, str) else agent_kind(agent)
        return AgentAttachments(AgentRuntime(service.directory, agent_id(kind, name)).attachments)

    async def signed_url(
        self,
        agent: type[Agent[Any]] | str,
        name: str,
        part: Mapping[str, Any] | str,
        *,
        expires_in: float | timedelta = 300.0,
    ) -> str:
        """Return a URL with which any client can read a file of an agent until it expires.

        `authorize` is not asked: check first that the caller may read the conversation.

        Raises:
            AttachmentMissing: the file is not stored.
        """
        return await (await self.of(agent, name)).signed_url(part, expires_in=expires_in)

    async def sweep(self) -> int:
        """Delete now what no message has referred to for `AttachmentOptions.grace`; return how many there were.

        A running app does this by itself from time to time. The time begins when a sweep first finds no message.
        """
        return await AttachmentSweep((await self._service()).directory).sweep()
