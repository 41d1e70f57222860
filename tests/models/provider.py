"""A provider on loopback that says what the test wants: whole, in pieces, broken off, or refused."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


@dataclass(frozen=True)
class Reply:
    """What one request is answered with. `gate` holds back everything after the first piece until it is set."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    error: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    is_dropped: bool = False
    gate: threading.Event | None = None


class Dropped(Exception):
    """Breaks the connection in the middle of an answer."""


class FakeProvider:
    """Answers requests in order with `replies`; `bodies` are what it was asked, `raw` the same as bytes."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.replies: deque[Reply] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.left = threading.Event()

    async def answer(self, request: Request) -> Response:
        self.raw.append(await request.body())
        self.bodies.append(json.loads(self.raw[-1]))
        reply = self.replies.popleft()
        if reply.status != 200:
            return JSONResponse(reply.error, reply.status, headers=reply.headers)
        return StreamingResponse(self._pieces(reply), media_type="text/event-stream", headers=reply.headers)

    async def _pieces(self, reply: Reply) -> AsyncIterator[bytes]:
        try:
            for position, piece in enumerate(reply.pieces):
                if position and reply.gate is not None:
                    await _opened(reply.gate)
                yield piece
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.left.set()
            raise
        if reply.is_dropped:
            raise Dropped

    def clear(self) -> None:
        self.replies.clear()
        self.bodies.clear()
        self.raw.clear()
        self.left.clear()


async def _opened(gate: threading.Event) -> None:
    """Wait for a gate of another thread, in a way that a client's leaving can cancel."""
    opened = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=lambda: gate.wait(30) and loop.call_soon_threadsafe(opened.set), daemon=True).start()
    await opened.wait()


@contextmanager
def serving() -> Iterator[FakeProvider]:
    """Run a provider in a thread; its socket listens before its address is returned."""
    listener = socket.create_server(("127.0.0.1", 0))
    provider = FakeProvider(listener.getsockname()[1])
    app = Starlette(routes=[Route("/{path:path}", provider.answer, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


def sse(events: Sequence[dict[str, Any]], *, named: bool = False, done: bool = False) -> bytes:
    """Return a stream's bytes. `named` puts each event's type on a line of its own, `done` ends it with [DONE]."""
    lines = []
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        lines.append(f"{head}data: {json.dumps(event, ensure_ascii=False)}\n\n")
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def cut(body: bytes, positions: Sequence[int]) -> list[bytes]:
    """Cut bytes at the given positions."""
    edges = [0, *sorted({at for at in positions if 0 < at < len(body)}), len(body)]
    return [body[begin:end] for begin, end in pairwise(edges)]
