"""The server under test: everyword with the scripted agents, the page, and routes for the test (`/control`).

As a process (`tests.forked_processes`) it serves one file on one port until it is killed. It prints `ready` when it
has started.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from everyword import AttachmentOptions
from everyword.agents import Agent
from everyword.server import Everyword, Limits
from everyword.server.node_settings import NodeSettings
from tests.browser.agent_tools_agent import TEAMED
from tests.browser.how_to_agents import PRINTED
from tests.browser.page_bundles import INDEX, build
from tests.browser.scripted_agents import AGENTS, BOOK
from tests.browser.server_driven_agent import DRIVEN
from tests.browser.state_agent import STATEFUL
from tests.browser.think_agents import THINKING
from tests.browser.tool_agents import TOOLED
from tests.cluster.relayed import behind_a_link, is_relaying

__all__ = ["configured", "listening", "main"]

LIMITS: Final = Limits(requests_per_minute=100_000, calls_per_minute=100_000, frames_per_minute=1_000_000)


class _Agents:
    """The agents as an ASGI application; behind a link, if the tests are relayed."""

    def __init__(self, everyword: Everyword) -> None:
        self._everyword, self._app = everyword, cast(ASGIApp, everyword)

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._everyword.lifespan())
            if is_relaying():
                self._app, _ = await stack.enter_async_context(behind_a_link(self._everyword))
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def application(store: str, more_agents: Sequence[type[Agent[Any]]] = (), lease: float | None = None) -> Starlette:
    """Return the application: everything that the page and the test ask for, under one origin."""
    agents = (*AGENTS, *TOOLED, *STATEFUL, *DRIVEN, *TEAMED, *THINKING, *PRINTED)
    node = NodeSettings(lease=lease) if lease is not None else None
    attachments = AttachmentOptions(store=os.environ.get("ATTACHMENTS"))
    given = {"store": store, "limits": LIMITS, "node": node, "attachments": attachments}
    everyword = Everyword((*agents, *more_agents), **given)
    served = _Agents(everyword)
    everyword.grace = 1.0  # a browser holds back sockets of a server that was away for long
    routes = [
        Route("/stock/{client}/index.html", lambda request: FileResponse(INDEX)),
        Route("/stock/{client}/page.js", _bundle),
        Route("/plain/{client}/index.html", lambda request: FileResponse(INDEX)),
        Route("/plain/{client}/page.js", _plain_bundle),
        Route("/control/open", _open, methods=["POST"]),
        Route("/control/reached", _wait_for(lambda gate: BOOK.reached[gate])),
        Route("/control/left", _wait_for(lambda gate: BOOK.left[gate])),
        Route("/control/book", _read_book),
        Route("/control/result", _result),
        Mount("/", served),
    ]
    return Starlette(routes=routes, lifespan=served.lifespan)


def _bundle(request: Request, page: str = "use-agent-chat-page") -> Response:
    kept = {"cache-control": "max-age=600"}
    return FileResponse(build(request.path_params["client"], page), media_type="text/javascript", headers=kept)


def _plain_bundle(request: Request) -> Response:
    return _bundle(request, "use-chat-page")


async def _open(request: Request) -> Response:
    BOOK.opened[request.query_params["gate"]].set()
    return Response(status_code=204)


def _wait_for(event_of: Callable[[str], asyncio.Event]) -> Callable[[Request], Any]:
    async def wait(request: Request) -> Response:
        await event_of(request.query_params["gate"]).wait()
        return Response(status_code=204)

    return wait


async def _read_book(request: Request) -> Response:
    name = request.query_params["name"]
    return JSONResponse({"calls": BOOK.calls[name], "results": BOOK.results[name]})


async def _result(request: Request) -> Response:
    name, number = request.query_params["name"], int(request.query_params["number"])
    return JSONResponse(await BOOK.result(name, number))


def configured(store: str, more_agents: Sequence[type[Agent[Any]]] = (), lease: float | None = None) -> uvicorn.Config:
    """Return the settings of uvicorn: no access log, and one second for open connections at shutdown."""
    return uvicorn.Config(
        application(store, more_agents, lease),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        ws_max_size=64 * 1024 * 1024,
        ws="everyword.server.uvicorn_websocket:UvicornWebSocketProtocol",
    )


def listening(port: int = 0) -> socket.socket:
    """Return a socket that listens on loopback; the port is free again as soon as its process is dead."""
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    listener.setblocking(False)
    return listener


class _Announced(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        os.write(1, b"ready\n")


def main(store: str, port: str, lease: str = "", more_agents: Sequence[type[Agent[Any]]] = ()) -> None:
    """Serve one store on one port until the process is stopped or killed; `lease` is that of a node among several."""
    config = configured(store, more_agents, float(lease) if lease else None)
    asyncio.run(_Announced(config).serve(sockets=[listening(int(port))]))
