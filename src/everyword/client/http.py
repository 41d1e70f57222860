"""The agent over plain HTTP: its stored messages, and turns as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import ChatFailed, TurnedAway, Unreachable
from ..extras import missing
from ..ids import Millis
from ..messages.message import UIMessage
from ..messages.sse import SseEvent, SseParser
from .address import Address
from .connection import Options, fields
from .protocol.stream_joiner import StreamJoiner

if TYPE_CHECKING:
    import httpx

__all__ = ["Http"]

JsonObject = dict[str, Any]


class Http:
    """Requests to one agent, with the headers and the query of its client."""

    def __init__(self, address: Address, options: Options) -> None:
        self._address, self._options = address, options
        self._client: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def messages(self) -> list[JsonObject]:
        """Read the stored conversation; tries again while the server cannot be reached.

        Raises TurnedAway when it does not let this client read, Unreachable when it takes too long.
        """
        import httpx

        attempt, clock = 0, self._options.clock
        deadline = clock.now() + self._options.connect_timeout * 1000
        while True:
            attempt += 1
            try:
                answer = await self._get("get-messages")
                self._check(answer)
            except httpx.TransportError as error:
                if clock.now() >= deadline:
                    raise Unreachable(f"unable to read the messages; {error!r}. Is the server running?") from None
            else:
                if answer.status_code == 200:
                    return list(msgspec.json.decode(answer.content))
                if clock.now() >= deadline:
                    raise Unreachable(f"unable to read the messages; the server says {answer.status_code}")
            await self._pause(attempt)

    async def follow(self, request: str | None) -> AsyncGenerator[UIMessage, None]:
        """Yield growing snapshots of a turn; goes on from the cursor after a drop."""
        import httpx

        turn = _SseTurn(request)
        attempt = 0
        while not turn.is_over:
            attempt += 1
            try:
                async for snapshot in self._read(turn):
                    attempt = 0
                    yield snapshot
            except httpx.TransportError:
                pass  # whatever was read is kept, and its cursor says where to go on
            if not turn.is_over:
                await self._pause(attempt + 1)

    async def _read(self, turn: _SseTurn) -> AsyncGenerator[UIMessage, None]:
        client, parser = self._http(), SseParser()
        options = self._options
        query = {**await fields(options.query), **({"request": turn.request} if turn.request else {})}
        headers = {**await fields(options.headers), **({"last-event-id": turn.cursor} if turn.cursor else {})}
        async with client.stream("GET", self._address.http("chat/stream"), params=query, headers=headers) as answer:
            self._check(answer)
            if answer.status_code == 204:
                turn.is_over = True
            if answer.status_code != 200:
                return
            await turn.begin(answer.headers.get("x-everyword-request"), self.messages)
            async for piece in answer.aiter_bytes():
                if turn.take(parser.feed(piece)) and (snapshot := turn.snapshot()) is not None:
                    yield snapshot
            turn.raise_failure()

    async def _get(self, resource: str) -> httpx.Response:
        options = self._options
        query, headers = dict(await fields(options.query)), dict(await fields(options.headers))
        return await self._http().get(self._address.http(resource), params=query, headers=headers)

    async def _pause(self, attempt: int) -> None:
        clock = self._options.clock
        delay = self._options.backoff.delay(attempt, self._options.random)
        await clock.sleep_until(Millis(clock.now() + delay))

    def _check(self, answer: httpx.Response) -> None:
        status = answer.status_code
        if 400 <= status < 500 and status not in (408, 425, 429):
            raise TurnedAway(f"unable to read {answer.url.path}; the server says {status}", status=status)

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                import httpx
            except ImportError:
                raise missing("httpx", "client", "read over HTTP") from None
            # Loading certificates takes longer than many a request; plain HTTP needs none.
            is_secure = self._address.http("").startswith("https")
            timeout, transport = httpx.Timeout(30.0, read=60.0), self._options.transport
            self._client = httpx.AsyncClient(verify=is_secure, timeout=timeout, transport=transport)
        return self._client


class _SseTurn:
    """One turn as its events tell it, over as many responses as it takes."""

    def __init__(self, request: str | None) -> None:
        self.request = request
        self.cursor = ""
        self.is_over = False
        self._joiner: StreamJoiner | None = None
        self._base: UIMessage | None = None
        self._failure: str | None = None

    async def begin(self, request: str | None, read_messages: Any) -> None:
        """Note which turn it is; what a continuation goes on from is read from the stored messages."""
        self.request = self.request or request
        if self._joiner is not None:
            self._joiner.dropped()
        else:
            stored = await read_messages()
            last = stored[-1] if stored and stored[-1]["role"] == "assistant" else None
            self._base = UIMessage.from_dict(last) if last is not None else None

    def take(self, events: list[SseEvent]) -> bool:
        """Fold events; tell whether there is something new to show."""
        is_news = False
        for event in events:
            self.cursor = event.id if event.id is not None else self.cursor
            if event.data == "[DONE]":
                self.is_over = True
                is_news = bool(self._joiner is not None and self._joiner.replayed()) or is_news
                continue
            chunk = msgspec.json.decode(event.data)
            if chunk["type"] == "error":
                self._failure = chunk.get("errorText")
            else:
                index = int(event.id) if event.id is not None and event.id.isdigit() else None
                is_news = bool(self._joining(chunk).feed(index, chunk)) or is_news
        return is_news

    def snapshot(self) -> UIMessage | None:
        message = self._joiner.held.message() if self._joiner is not None else None
        return message if message is not None and message.id and message.parts else None

    def raise_failure(self) -> None:
        if self.is_over and self._failure is not None:
            raise ChatFailed(self._failure, request=self.request or "", message=self.snapshot())

    def _joining(self, chunk: JsonObject) -> StreamJoiner:
        """Return what takes the chunks: what is told again, because the server has only the whole, is told once."""
        if self._joiner is None:
            named = chunk.get("messageId") if chunk["type"] == "start" else None
            base = self._base if self._base is not None and named in (None, self._base.id) else None
            self._joiner = StreamJoiner(base.id if base is not None else named or "", base=base)
        return self._joiner
