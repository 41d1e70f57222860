"""The answer to a question, followed to its end: through drops, restarts, client tools and continuations."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ..errors import ChatFailed
from ..messages.message import UIMessage
from ..messages.tool_calls import tool_parts
from .protocol.chat import Ended

if TYPE_CHECKING:
    from .chat import ChatClient

__all__ = ["Reply"]


class Reply:
    """An answer that grows. Iterate it for snapshots, or await it for the last one.

    The question is sent whether or not anybody iterates. A slow reader gets the newest snapshot, not all of them.
    Raises ChatFailed when the turn ends in error; for the other outcomes it ends, and `outcome` tells which.
    """

    def __init__(self, chat: ChatClient, request: str | None) -> None:
        self.request = request
        """The request that is followed; continuations have one of their own. None: none is known yet."""
        self.message: UIMessage | None = None
        self.outcome: str | None = None
        self._chat = chat
        self._shown: dict[str, Any] | None = None
        self._followed: set[str] = set()
        self._is_news = False
        self._is_over = False

    def __aiter__(self) -> Reply:
        return self

    def __await__(self) -> Generator[Any, None, UIMessage | None]:
        return self._last().__await__()

    async def _last(self) -> UIMessage | None:
        async for _ in self:
            pass
        return self.message

    async def stop(self) -> None:
        """Ask for the turn to be stopped; the snapshots end once it is."""
        if self.request is not None:
            await self._chat.stop(self.request)

    async def __anext__(self) -> UIMessage:
        chat = self._chat
        while True:
            if self.request is not None:
                await chat.make_sure(self.request)
                self._look()
            if self._is_news and self.message is not None:
                self._is_news = False
                return self.message
            if self._is_over:
                raise StopAsyncIteration
            if self.request is None:
                await self._find()
            elif (ended := chat.protocol.endings.get(self.request)) is not None:
                await self._end(ended)
            else:
                await chat.connection.change()

    def _look(self) -> bool:
        """Take the newest snapshot; False when there is nothing new."""
        protocol = self._chat.protocol
        protocol.messages  # noqa: B018 - what streams is put among the messages when they are read
        name = protocol.answers.get(self.request or "")
        found = protocol.find(name) if name is not None else None
        if found is None or found is self._shown:
            return False
        is_news = found != self._shown
        self._shown, self.message = found, UIMessage.from_dict(found)
        self._is_news = self._is_news or is_news
        return is_news

    async def _find(self) -> None:
        """Follow what runs or is about to; when there is nothing, this is over."""
        protocol = self._chat.protocol
        found = protocol.running[0] if protocol.running else await self._probe()
        if found is None or found in protocol.endings:
            found = self._chat.running.continued()  # it may be over by now
        self.request = found
        self._is_over = found is None

    async def _end(self, ended: Ended) -> None:
        assert self.request is not None
        if ended.outcome != "skipped" or not self._followed:
            self.outcome = ended.outcome
        self._followed.add(self.request)
        if ended.outcome == "error":
            self._is_over = True
            raise ChatFailed(ended.error or "The answer failed.", request=self.request, message=self.message)
        following = None
        if ended.outcome == "completed":
            following = await self._continuation()
            while following is None and self._look():  # it went on and ended while this client was away
                following = await self._continuation()
        if following is None:
            self._is_over = True
        else:
            self.request = following

    async def _continuation(self) -> str | None:
        """Return the request that goes on with this message after calls of it were answered here, if there is one."""
        chat = self._chat
        if self.message is None:
            return None
        calls = {part["toolCallId"] for part in tool_parts(self.message)}
        await chat.connection.until(lambda: not chat.running.is_busy(calls))
        if not chat.running.take(calls):
            return None
        while True:
            if (heard := self._heard()) is not None:
                return heard
            found = await self._probe()
            if found is None or found in self._followed or found in chat.protocol.questions:
                return self._heard()
            await chat.connection.until(
                lambda: found in chat.protocol.endings or self._writes(found) is not None  # noqa: B023 - awaited here
            )
            if self._writes(found) in (None, self.message.id):
                return found
            await chat.connection.until(lambda: found in chat.protocol.endings)  # noqa: B023 - somebody else's turn

    async def _probe(self) -> str | None:
        """Ask the server what there is to follow; over reconnects, the newest question counts."""
        protocol, connection = self._chat.protocol, self._chat.connection
        protocol.probe()
        connection.flush()
        await connection.until(lambda: protocol.last_probe in protocol.probes)
        return protocol.probes[protocol.last_probe or ""]

    def _heard(self) -> str | None:
        name = self.message.id if self.message is not None else None
        protocol = self._chat.protocol
        protocol.messages  # noqa: B018 - see _look
        return next((r for r, m in protocol.answers.items() if m == name and r not in self._followed), None)

    def _writes(self, request: str) -> str | None:
        protocol = self._chat.protocol
        protocol.messages  # noqa: B018 - see _look
        return protocol.answers.get(request)
