"""The answer to a question, followed to its end: through reconnects, restarts, client tools and continuations."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ..errors import ChatFailed
from ..messages.message import UIMessage
from ..messages.tool_calls import tool_parts
from .protocol.requests import Ended

if TYPE_CHECKING:
    from .chat import ChatClient

__all__ = ["Reply"]


class Reply:
    """An answer while it grows. Iterate it for snapshots, or await it for the last one.

    The question is sent whether or not the reply is iterated. A slow reader skips to the newest snapshot.
    Raises ChatFailed if the turn ends in error. After any other outcome the iteration ends, and `outcome` has it.
    """

    def __init__(self, chat: ChatClient, request: str | None) -> None:
        self.request = request
        """The request that is followed. Continuations have requests of their own. None while none is known."""
        self.message: UIMessage | None = None
        self.outcome: str | None = None
        self._chat = chat
        self._shown: dict[str, Any] | None = None
        """The message as the protocol had it when `message` was made."""
        self._followed: set[str] = set()
        """Requests that this reply has followed to their ends."""
        self._is_news = False
        """True if `message` has changed since it was last returned."""
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
        """Ask the server to stop the turn. The iteration ends once it has stopped."""
        if self.request is not None:
            await self._chat.stop(self.request)

    async def __anext__(self) -> UIMessage:
        while True:
            if self.request is not None:
                await self._chat.read_missed_answer(self.request)
                self._update()
            if self._is_news and self.message is not None:
                self._is_news = False
                return self.message
            if self._is_over:
                raise StopAsyncIteration
            if self.request is None:
                await self._find_request()
            elif (ending := self._ending(self.request)) is not None:
                await self._end(self.request, ending)
            else:
                await self._chat.connection.change()

    def _update(self) -> bool:
        """Read the newest snapshot; return False if it is the one that is known."""
        protocol = self._chat.protocol
        answer_id = self._answer_id(self.request or "")
        found = protocol.find(answer_id) if answer_id is not None else None
        if found is None or found is self._shown:
            return False
        is_news = found != self._shown
        self._shown, self.message = found, UIMessage.from_dict(found)
        self._is_news = self._is_news or is_news
        return is_news

    async def _find_request(self) -> None:
        """Follow the turn that runs or is about to run; if there is none, the reply is over."""
        protocol = self._chat.protocol
        found = protocol.running[0] if protocol.running else await self._probe()
        if found is None or self._ending(found) is not None:
            found = self._chat.tool_runner.take_continued_request()  # the continuation may have ended by now
        self.request = found
        self._is_over = found is None

    async def _end(self, request: str, ending: Ended) -> None:
        if ending.outcome != "skipped" or not self._followed:
            self.outcome = ending.outcome
        self._followed.add(request)
        if ending.outcome == "error":
            self._is_over = True
            raise ChatFailed(ending.error or "The answer failed.", request=request, message=self.message)
        following = None
        if ending.outcome == "completed":
            following = await self._continuation()
            while following is None and self._update():  # it continued and ended while this client was disconnected
                following = await self._continuation()
        if following is None:
            self._is_over = True
        else:
            self.request = following

    async def _continuation(self) -> str | None:
        """Return the request that continues this message after this client has answered calls of it, if any."""
        chat, message = self._chat, self.message
        if message is None:
            return None
        calls = {part["toolCallId"] for part in tool_parts(message)}
        await chat.connection.until(lambda: not chat.tool_runner.is_running(calls))
        if not chat.tool_runner.take_answered(calls):
            return None
        while True:
            if (known := self._known_continuation(message.id)) is not None:
                return known
            found = await self._probe()
            if found is None or found in self._followed or self._is_asked_here(found):
                return self._known_continuation(message.id)
            await chat.connection.until(lambda: self._has_answer_or_end(found))  # noqa: B023 - awaited here
            if self._answer_id(found) in (None, message.id):
                return found
            # A turn of another client runs first.
            await chat.connection.until(lambda: self._ending(found) is not None)  # noqa: B023 - awaited here

    async def _probe(self) -> str | None:
        """Ask the server which request there is to follow. After a reconnect, the answer to the newest probe counts."""
        resume, connection = self._chat.protocol.resume, self._chat.connection
        self._chat.protocol.probe()
        connection.flush()
        await connection.until(lambda: resume.newest in resume.answers)
        return resume.answers[resume.newest or ""]

    # -- what the protocol knows of a request ------------------------------------------------------------------------

    def _known_continuation(self, message_id: str) -> str | None:
        """Return the oldest request that writes this message and was not followed yet."""
        known = self._chat.protocol.requests.values()
        return next((each.id for each in known if each.answer_id == message_id and each.id not in self._followed), None)

    def _answer_id(self, request: str) -> str | None:
        known = self._chat.protocol.requests.get(request)
        return known.answer_id if known is not None else None

    def _ending(self, request: str) -> Ended | None:
        known = self._chat.protocol.requests.get(request)
        return known.ending if known is not None else None

    def _has_answer_or_end(self, request: str) -> bool:
        return self._answer_id(request) is not None or self._ending(request) is not None

    def _is_asked_here(self, request: str) -> bool:
        known = self._chat.protocol.requests.get(request)
        return known is not None and known.is_mine
