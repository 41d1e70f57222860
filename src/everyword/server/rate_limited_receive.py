"""What clients send, counted before anything else is done with it: too much within a minute is refused unread.

Both classes here are the `receive` of one connection. They know its client only once it was let in; what came before
is counted then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.types import Message, Receive, Send

from ..errors import TooFast
from ..principals import Principal
from .close_codes import TRY_LATER
from .incoming_frames import CUT, text_of
from .rate_limits import MINUTE
from .refusals import refusal_frame
from .service import Service

__all__ = ["RateLimitedBody", "RateLimitedFrames"]

log = logging.getLogger("everyword.server")

Count = Callable[[int, int], int]
"""Counts frames and bytes; returns for how many milliseconds nothing is taken."""


def _counter(service: Service, principal: Principal) -> Count:
    flow, clock, who = service.traffic, service.directory.clock, principal.id
    return lambda count, size: flow.wait_needed(who, count, size, clock.now())


def _sentence(wait: int) -> str:
    return f"unable to accept the data; you sent too much within a minute. Wait {wait // 1000 + 1} s."


class RateLimitedBody:
    """The `receive` of a request: counts its body."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._count: Count | None = None
        self._size = 0
        self._is_begun = False
        self.is_answered = False
        """Whether the answer has begun. Then a body that comes too fast is cut off: no status can be sent any more."""

    def count_for(self, service: Service, principal: Principal) -> None:
        """Count for this principal from now on, and what came before.

        Raises:
            TooFast: nothing is taken from it at present.
        """
        self._count = _counter(service, principal)
        if self._size:
            self._take(self._size)

    async def __call__(self) -> Message:
        message = await self._receive()
        size = len(message.get("body", b"")) if message["type"] == "http.request" else 0
        self._size += size
        if self._count is not None and size:
            try:
                self._take(size)
            except TooFast:
                if not self.is_answered:
                    raise
                return {"type": "http.disconnect"}
        return message

    def _take(self, size: int) -> None:
        """Count a piece. The first decides; what has begun is cut off only if it goes on for far too long."""
        assert self._count is not None
        wait = self._count(0 if self._is_begun else 1, size)
        if wait > (MINUTE if self._is_begun else 0):
            raise TooFast(_sentence(wait), wait=wait)
        self._is_begun = True


class RateLimitedFrames:
    """The `receive` of a socket: counts its frames, and answers those that are refused."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._count: Count | None = None
        self._who = ""
        self._is_refusing = False

    def count_for(self, service: Service, principal: Principal) -> None:
        """Count for this principal from now on; nothing comes before a socket is accepted."""
        self._count, self._who = _counter(service, principal), principal.id

    async def __call__(self) -> Message:
        while True:
            message = await self._receive()
            if self._count is None or message["type"] != "websocket.receive":
                return message
            wait = self._count(1, _size(message))
            if not wait:
                self._is_refusing = False
                return message
            self._note(wait)
            told = refusal_frame(text_of(message), _sentence(wait)) if wait <= MINUTE else None
            if told is None:
                return await self._close(_sentence(wait))
            # Waits while the client does not read; meanwhile nothing more of it is received.
            await self._send({"type": "websocket.send", "text": told.decode()})

    def _note(self, wait: int) -> None:
        if not self._is_refusing:
            log.warning("%r sends more than the limits allow; nothing is taken for %d ms", self._who, wait)
        self._is_refusing = True

    async def _close(self, reason: str) -> Message:
        await self._send({"type": "websocket.close", "code": TRY_LATER, "reason": reason})
        return {"type": "websocket.disconnect", "code": TRY_LATER, "reason": reason}


def _size(message: Message) -> int:
    if CUT in message:
        return int(message[CUT])
    text = message.get("text")
    if not isinstance(text, str):
        return len(message.get("bytes") or b"")
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
