"""Versions of messages (regenerations, edits), and forks: copies of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..errors import Rejected, UsageError
from ..ids import MessageId, NodeId
from ..messages.message import UIMessage
from ..runtime.agent_runtime import AgentRuntime
from ..runtime.api import VersionRecord
from .callables import callable_method

if TYPE_CHECKING:
    from .handles.chat_handle import ChatHandle

__all__ = ["HasVersions", "Version", "Versions"]


@dataclass(frozen=True, slots=True)
class Version:
    """One of several messages in the same place: an answer and its regenerations, a question and its edits."""

    id: int
    message: UIMessage
    is_shown: bool

    @classmethod
    def of(cls, record: VersionRecord) -> Version:
        """Translate the runtime's record."""
        return cls(record.node, record.message, record.is_shown)


class _Chat(Protocol):
    @property
    def _runtime(self) -> AgentRuntime: ...


class Versions:
    """The versions of a conversation, as `self.versions`: alternative messages in the same place."""

    __slots__ = ("_agent",)

    def __init__(self, agent: _Chat) -> None:
        self._agent = agent

    async def list(self, message_id: str) -> Sequence[Version]:
        """Return the versions of a message, oldest first: the message, its regenerations, its edits."""
        return [Version.of(record) for record in await self._agent._runtime.versions.versions(MessageId(message_id))]

    @callable_method(read_only=True)
    async def places(self) -> Sequence[dict[str, Any]]:
        """Return the places of the shown conversation that have other versions, in order.

        Each is `{messageId, afterMessageId, shown, versions}`: `versions` are ids, oldest first, an answer that is
        being written included, and `shown` is the index of the one that is shown. It and `messageId` are null where
        an answer ended without text. Pages call it as `get_versions`.
        """
        return [
            {
                "messageId": place.message,
                "afterMessageId": place.after,
                "shown": place.shown,
                "versions": [*place.versions],
            }
            for place in await self._agent._runtime.versions.places()
        ]

    @callable_method
    async def switch(self, version: int | str) -> None:
        """Show another version, and the newest of what followed it, in every tab. Pages call it as `switch_version`.

        Give the id of a version. The id of a message will do when no other version has the same: an edited question
        keeps its id.

        Raises:
            Rejected: there is no such version.
        """
        node = NodeId(version) if isinstance(version, int) else await self._only_version(version)
        await self._agent._runtime.versions.show(node)

    async def _only_version(self, message_id: str) -> NodeId:
        found = [
            each
            for each in await self._agent._runtime.versions.versions(MessageId(message_id))
            if each.message.id == message_id
        ]
        if not found:
            raise Rejected(f"unable to show message {message_id!r}; there is no such message")
        if len(found) > 1:
            raise UsageError(f"unable to tell the versions of {message_id!r} apart by id; give the id of a version")
        return found[0].node

    async def fork(self, message_id: str, name: str) -> ChatHandle[Any]:
        """Copy the conversation up to a message into a new agent of this class; the two are independent from then on.

        Raises:
            Rejected: the message is unknown or still being written, or the other agent has messages.
        """
        fork = await self._agent._runtime.versions.fork(MessageId(message_id), name)
        cls: Any = type(self._agent)
        handle: ChatHandle[Any] = cls._handle_type(self._agent._runtime.calls, fork, cls)
        return handle


class HasVersions:
    """The versions of a chat agent's messages."""

    _runtime: AgentRuntime
    _family_callables: ClassVar[Mapping[str, tuple[str, str]]] = {
        "get_versions": ("versions", "places"),
        "switch_version": ("versions", "switch"),
    }

    @property
    def versions(self) -> Versions:
        """Other versions of the shown messages: list them, switch to one, continue in a copy."""
        return Versions(self)
