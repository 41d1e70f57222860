"""An agent over plain HTTP: its stored messages, and turns as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import ChatFailed, TurnedAway, Unreachable
from ..extras import missing
from ..ids import Millis
from ..messages.message import UIMessage
from ..messages.sse import SseParser
from .address import AgentAddress
from .connection import Options, fields
from .protocol.sse_turn import SseTurn

if TYPE_CHECKING:
    import httpx

__all__ = ["Http"]

JsonObject = dict[str, Any]


class Http:
    """HTTP requests to one agent, with the headers and the query of its client."""

    def __init__(self, address: AgentAddress, options: Options) -> None:
        self._address, self._options = address, options
        self._client: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def messages(self) -> list[JsonObject]:
        """Read the stored conversation; retry while the server cannot be reached.

        Raises TurnedAway if the server refuses the request, Unreachable after `connect_timeout`.
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
                    raise Unreachable(f"unable to read the messages; the server answered {answer.status_code}")
            await self._pause(attempt)

    async def follow(self, request: str | None) -> AsyncGenerator[UIMessage, None]:
        """Yield growing snapshots of a turn; reconnect from its cursor. Raises ChatFailed if the turn fails."""
        import httpx

        turn = SseTurn(request)
        attempt = 0
        while not turn.is_over:
            attempt += 1
            try:
                async for snapshot in self._read(turn):
                    attempt = 0
                    yield snapshot
            except httpx.TransportError:
                pass  # the turn keeps what was read, and its cursor
            if not turn.is_over:
                await self._pause(attempt + 1)

    async def _read(self, turn: SseTurn) -> AsyncGenerator[UIMessage, None]:
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
            turn.request = turn.request or answer.headers.get("x-everyword-request")
            if turn.has_begun:
                turn.resume()
            else:
                turn.begin(await self.messages())
            async for piece in answer.aiter_bytes():
                if turn.receive(parser.feed(piece)) and (snapshot := turn.snapshot()) is not None:
                    yield snapshot
            if turn.is_over and turn.failure is not None:
                raise ChatFailed(turn.failure, request=turn.request or "", message=turn.snapshot())

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
            raise TurnedAway(f"unable to read {answer.url.path}; the server answered {status}", status=status)

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                import httpx
            except ImportError:
                raise missing("httpx", "client", "read over HTTP") from None
            # Loading the certificates takes longer than most requests, and plain HTTP needs none.
            is_secure = self._address.http("").startswith("https")
            timeout, transport = httpx.Timeout(30.0, read=60.0), self._options.transport
            self._client = httpx.AsyncClient(verify=is_secure, timeout=timeout, transport=transport)
        return self._client
