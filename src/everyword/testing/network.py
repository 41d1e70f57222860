"""Connections from clients to an app in the same loop: WebSockets and HTTP requests that a test can cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from starlette.types import ASGIApp, Message, Scope

__all__ = ["Network", "Socket"]

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

_GONE = 1006


def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work, name="connection in process")


class Network:
    """Connects clients with an app: `connect` and `transport` are what a client takes instead of the real ones.

    While `app` is None connections are refused. `spawn` starts the task that serves a connection.
    """

    def __init__(self, app: ASGIApp | None = None, spawn: Spawn = _spawn) -> None:
        self.app, self.spawn = app, spawn
        self._open: set[_Exchange] = set()

    @property
    def transport(self) -> httpx.AsyncBaseTransport:
        """A transport for httpx that streams; the `ASGITransport` of httpx does not."""
        return _Transport(self)

    async def connect(self, url: str, headers: Mapping[str, str]) -> Socket:
        """Open a socket; raises OSError when there is no app, or when the app refuses the socket."""
        socket = Socket(self._begun(_scope("websocket", url, headers.items())))
        await socket.open()
        return socket

    def cut(self) -> None:
        """End every connection without a close frame, like a failed network."""
        for exchange in list(self._open):
            exchange.cut()

    async def aclose(self) -> None:
        self.cut()
        await asyncio.gather(*(exchange.task for exchange in self._open), return_exceptions=True)

    def _begun(self, scope: Scope, first: list[Message] | None = None) -> _Exchange:
        if self.app is None:
            raise ConnectionRefusedError("unable to connect; the server is not running")
        exchange = _Exchange(self.app, scope, first or [], self.spawn)
        self._open.add(exchange)
        exchange.task.add_done_callback(lambda _: self._open.discard(exchange))
        return exchange


class _Exchange:
    """One call of the app, with the messages in flight in both directions."""

    def __init__(self, app: ASGIApp, scope: Scope, first: list[Message], spawn: Spawn) -> None:
        self.is_cut = False
        self._kind: str = scope["type"]
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message | None] = asyncio.Queue()
        for message in first:
            self._to_app.put_nowait(message)
        self.task = spawn(self._serve(app, scope))
        self.task.add_done_callback(lambda _: self._from_app.put_nowait(None))

    async def _serve(self, app: ASGIApp, scope: Scope) -> None:
        await app(scope, self._to_app.get, self._take)

    async def _take(self, message: Message) -> None:
        if self.is_cut:
            raise OSError("unable to send; the client is gone")
        self._from_app.put_nowait(message)

    def send(self, message: Message) -> None:
        if not self.is_cut:
            self._to_app.put_nowait(message)

    async def receive(self) -> Message | None:
        """Return the app's next message; None at the end, or when the connection is cut."""
        message = None if self.is_cut else await self._from_app.get()
        if message is None or self.is_cut:
            self._from_app.put_nowait(None)  # for the next call
            return None
        return message

    def cut(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            kind = "websocket.disconnect" if self._kind == "websocket" else "http.disconnect"
            self._to_app.put_nowait({"type": kind, "code": _GONE})
            self._from_app.put_nowait(None)


class Socket:
    """A client's end of a socket, as `websockets` has it: iterate for frames, `send`, `close`."""

    def __init__(self, exchange: _Exchange) -> None:
        self.close_code: int | None = None
        self.close_reason = ""
        self._exchange = exchange

    async def open(self) -> None:
        self._exchange.send({"type": "websocket.connect"})
        message = await self._exchange.receive()
        if message is None or message["type"] != "websocket.accept":
            raise ConnectionRefusedError("unable to connect; the server turned the socket away")

    async def send(self, text: str) -> None:
        self._exchange.send({"type": "websocket.receive", "text": text})

    async def __aiter__(self) -> AsyncIterator[str]:
        while (message := await self._exchange.receive()) is not None:
            if message["type"] == "websocket.close":
                self.close_code, self.close_reason = message.get("code", 1000), message.get("reason") or ""
                return
            yield message.get("text") or (message.get("bytes") or b"").decode()
        self.close_code = self.close_code or _GONE

    async def close(self) -> None:
        self._exchange.cut()
        self.close_code = self.close_code or 1000


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, network: Network) -> None:
        self._network = network

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body: Message = {"type": "http.request", "body": await request.aread(), "more_body": False}
        scope = _scope("http", str(request.url), request.headers.items(), method=request.method)
        try:
            exchange = self._network._begun(scope, [body])
        except OSError as exc:
            raise httpx.ConnectError(str(exc), request=request) from exc
        start = await exchange.receive()
        if start is None:
            _raise_failure(exchange.task)
            raise httpx.ReadError("unable to read the answer; the connection is gone", request=request)
        return httpx.Response(start["status"], headers=start["headers"], stream=_Body(exchange), request=request)


class _Body(httpx.AsyncByteStream):
    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._exchange.receive()) is not None:
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                return
        raise httpx.ReadError("unable to read on; the connection is gone")

    async def aclose(self) -> None:
        self._exchange.cut()
        with suppress(asyncio.CancelledError, OSError):
            await asyncio.shield(self._exchange.task)


def _raise_failure(task: asyncio.Task[None]) -> None:
    if task.done() and not task.cancelled() and (failure := task.exception()) is not None:
        raise failure


def _scope(kind: str, url: str, headers: Any, **more: Any) -> Scope:
    parts = urlsplit(url)
    named = {name.lower(): value for name, value in headers}
    named["host"] = parts.netloc
    return {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": parts.scheme,
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 0),
        "server": (parts.hostname or "localhost", parts.port or 80),
        "subprotocols": [],
        "state": {},
        **more,
    }
