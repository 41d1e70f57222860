"""A receiver of webhooks: a real HTTP server that a test starts, stops and lets refuse."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import deque
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.free_ports import free_port
from tests.timeouts import PATIENCE

KEY = bytes(range(32))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


@dataclass(frozen=True)
class Received:
    """One request, as it arrived."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    def is_signed_by(self, key: bytes = KEY) -> bool:
        """Tell whether one of the signatures is made with the key: computed here, by the convention's text."""
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        own = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return own in self.headers["webhook-signature"].split()


class Receiver:
    """Keeps what it is sent. It answers `answers` one after the other, and then 204."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/hook?key=hidden"
        self.all: list[Received] = []
        self.answers: deque[Response] = deque()
        self._new = asyncio.Condition()
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Receiver:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = Starlette(routes=[Route("/hook", self._take, methods=["POST"])])
        config = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_config=None, lifespan="off")
        self._server = server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.shutdown()

    async def until(self, count: int) -> list[Received]:
        """Wait until so many requests have arrived; return all."""
        async with asyncio.timeout(PATIENCE), self._new:
            await self._new.wait_for(lambda: len(self.all) >= count)
        return list(self.all)

    async def _take(self, request: Request) -> Response:
        body = await request.body()
        async with self._new:
            self.all.append(Received(dict(request.headers), body))
            self._new.notify_all()
        return self.answers.popleft() if self.answers else Response(status_code=204)
