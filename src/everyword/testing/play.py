"""What a person does in a conversation, for `assert_parity`: asks, approves, answers calls, stops, asks again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, assert_never

from ..client import ChatClient
from ..errors import ChatFailed
from ..messages.calls import is_open, tool_name, tool_parts
from ..messages.repair import INTERRUPTED
from .pace import Pace

__all__ = ["Act", "Approve", "Ask", "AskAndStop", "Deny", "Give", "Player", "Regenerate"]


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a person does; the next thing is done when it has had its effect."""


@dataclass(frozen=True, slots=True)
class Ask(Act):
    """Ask something; a plain string in a script is the same."""

    text: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AskAndStop(Act):
    """Ask something, and stop the answer once so many of its items are there."""

    text: str
    after: int = 1


@dataclass(frozen=True, slots=True)
class Approve(Act):
    """Allow the call of this tool that waits for somebody's word."""

    tool: str


@dataclass(frozen=True, slots=True)
class Deny(Act):
    tool: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Give(Act):
    """Give the result of the page's own tool that was called; with `error`, the text of its failure."""

    tool: str
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Regenerate(Act):
    """Have the last answer given again."""


class Player:
    """Does what a script says, as one client."""

    def __init__(self, chat: ChatClient, pace: Pace) -> None:
        self._chat, self._pace = chat, pace

    async def play(self, script: Sequence[str | Act]) -> None:
        for act in script:
            await self._do(Ask(act) if isinstance(act, str) else act)

    async def _do(self, act: Any) -> None:
        chat = self._chat
        match act:
            case Ask():
                await self._ended(chat.send(act.text, body=act.body))
            case AskAndStop():
                await self._stopped(act)
            case Approve() | Deny() | Give():
                call = await self._waiting(act.tool)
                if call is not None:
                    await self._answer(act, call)
                    await self._ended(chat.follow())
            case Regenerate():
                await self._ended(chat.regenerate())
            case _:
                assert_never(act)

    async def _ended(self, reply: Any) -> None:
        with suppress(ChatFailed):
            await reply

    async def _stopped(self, act: AskAndStop) -> None:
        pace, reply = self._pace, self._chat.send(act.text)
        await self._chat.connection.until(lambda: self._chat.protocol.is_streaming or not self._chat.protocol.running)
        while pace.said < act.after and self._chat.protocol.running:
            await self._chat.connection.change()
        await reply.stop()
        await self._ended(reply)

    async def _answer(self, act: Approve | Deny | Give, call: str) -> None:
        match act:
            case Approve():
                await self._chat.approve(call)
            case Deny():
                await self._chat.deny(call, act.reason)
            case Give():
                await self._chat.answer(call, act.output, error=act.error)
            case _:
                assert_never(act)

    async def _waiting(self, tool: str) -> str | None:
        """Return the call of this tool that waits, once there is one; None when a death has cut it off."""
        found: list[str | None] = []

        def look() -> bool:
            parts = [part for message in self._chat.messages for part in tool_parts(message)]
            calls = [part for part in parts if tool_name(part) == tool]
            found[:] = [str(part["toolCallId"]) for part in calls if is_open(part)]
            if not found and not self._chat.protocol.running:
                found[:] = [None for part in calls[-1:] if part.get("errorText") == INTERRUPTED]
            return bool(found)

        await self._chat.connection.until(look)
        return found[-1]
