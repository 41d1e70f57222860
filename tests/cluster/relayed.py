"""Any application behind a link, in one process: every request and socket is relayed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from starlette.types import Receive, Scope, Send

from everyword.cluster.asgi_relay import relay
from everyword.cluster.peer_requests import PeerRequests
from everyword.cluster.relayed_requests import RelayedRequests
from tests.cluster.kit import OWNER, Pair, nodes

__all__ = ["Edge", "behind_a_link", "is_relaying"]


def is_relaying() -> bool:
    """Return whether tests run behind a link: `EVERYWORD_RELAYED=1 pytest tests/server` (client, parity, browser)."""
    return os.environ.get("EVERYWORD_RELAYED", "") not in ("", "0")


class Edge:
    """An ASGI application that relays everything over a link but the lifespan, which is the application's own."""

    relayed: ClassVar[int] = 0
    """Requests and sockets, over all edges of this process."""

    def __init__(self, pair: Pair, app: Any, attached: bytes = b"") -> None:
        self._pair, self._app, self._attached = pair, app, attached

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            Edge.relayed += 1
            await relay(await self._pair.dial(OWNER), scope, receive, send, self._attached)


@asynccontextmanager
async def behind_a_link(app: Any, attached: bytes = b"") -> AsyncIterator[tuple[Edge, Pair]]:
    """Yield an application that does what this one does, over a link; and both ends of the link."""
    async with nodes(PeerRequests(RelayedRequests(app))) as pair:
        yield Edge(pair, app, attached), pair
