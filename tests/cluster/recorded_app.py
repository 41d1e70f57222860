"""A small ASGI application that does what it is asked, and records what it sees. Run it directly, or behind a link."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from tests.cluster.relayed import behind_a_link
from tests.server.kit import serving

MEGABYTES = 8 * 1024 * 1024
FRAMES = "everyword.frames"


class RecordedApp:
    """An application by path, and the scope and messages that it has seen."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.seen: list[Message] = []
        self.left = asyncio.Event()
        """Set when a client is gone."""
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.scopes.append(dict(scope))

        async def recorded() -> Message:
            message = await receive()
            self.seen.append(message)
            if message["type"].endswith("disconnect"):
                self.left.set()
            return message

        name = scope["path"].split("/")[1]
        await getattr(self, f"{scope['type']}_{name}")(scope, recorded, send)

    # -- HTTP ---------------------------------------------------------------------------------------------------

    async def http_echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        headers = [(b"x-one", b"1"), (b"x-one", b"2"), (b"x-latin", b"\xe9"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def http_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send one event, and the next when the test says so."""
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
            await self.go.wait()
            self.go.clear()
        await send({"type": "http.response.body", "body": b""})

    async def http_endless(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client is gone."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})

    async def http_waits(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing until the client is gone."""
        self.go.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def http_fails(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("on purpose")

    async def http_cut(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"some", "more_body": True})

    async def http_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(range(256)) * (MEGABYTES // 256)})

    async def http_refuses(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer without reading the body."""
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    # -- sockets ------------------------------------------------------------------------------------------------

    async def websocket_echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        chosen = scope["subprotocols"][-1] if scope["subprotocols"] else None
        await send({"type": "websocket.accept", "subprotocol": chosen, "headers": [(b"x-chosen", b"yes")]})
        while (message := await receive())["type"] == "websocket.receive":
            if message.get("text") == "close":
                await send({"type": "websocket.close", "code": 4321, "reason": "as you wish"})
                assert (await receive())["type"] == "websocket.disconnect"
                return
            if message.get("text") == "return":
                return
            kept = {key: message[key] for key in ("text", "bytes") if message.get(key) is not None}
            await send({"type": "websocket.send", **kept})

    async def websocket_reads(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async def websocket_floods(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send more than any client takes, and close when the test says so."""
        await send({"type": "websocket.accept"})
        flooding = asyncio.create_task(self._flood(send))
        await self.go.wait()
        flooding.cancel()
        await asyncio.wait({flooding})
        await send({"type": "websocket.close", "code": 4000, "reason": "enough"})
        self.left.set()

    async def _flood(self, send: Send) -> None:
        while True:
            await send({"type": FRAMES, "frames": [b"x" * 50_000]})

    async def websocket_refuses(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": "no"})

    async def websocket_answers(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with an HTTP response."""
        await receive()
        headers = [(b"x-why", b"because")]
        await send({"type": "websocket.http.response.start", "status": 418, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"tea", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"pot"})

    async def websocket_fails(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        raise ValueError("on purpose")

    async def websocket_frames(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send many frames at once, without waiting where that is possible."""
        await receive()
        await send({"type": "websocket.accept"})
        texts = [json.dumps({"n": n, "é": "x" * n}).encode() for n in range(300)]
        rest = scope["extensions"][FRAMES]["write"](texts)
        if rest:
            await send({"type": FRAMES, "frames": rest})
        await send({"type": FRAMES, "frames": (), "pieces": _pieces(b"ab" * 100_000)})
        await send({"type": "websocket.close", "code": 1000})


class _Slice:
    def __init__(self, *parts: bytes) -> None:
        self.parts = parts


class _Piece:
    def __init__(self, part: bytes, is_first: bool, is_last: bool) -> None:
        self.slice, self.is_first, self.is_last = _Slice(part), is_first, is_last


def _pieces(frame: bytes) -> list[Any]:
    size = 65_536
    last = (len(frame) - 1) // size
    return [_Piece(frame[n * size : (n + 1) * size], n == 0, n == last) for n in range(last + 1)]


@asynccontextmanager
async def served(
    app: Any, *, is_relayed: bool, attached: bytes = b"", **options: Any
) -> AsyncIterator[tuple[str, Any]]:
    """Serve an application, directly or behind a link; yield its URL, and the pair of nodes if there is one."""
    if not is_relayed:
        async with serving(app, **options) as url:
            yield url, None
        return
    async with behind_a_link(app, attached) as (edge, pair), serving(edge, **options) as url:
        yield url, pair
