"""`on_close` of a connection runs once, when its client leaves: not when its agent moves to another node."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest
import websockets

from everyword.agents import AIChatAgent
from everyword.ids import agent_id
from everyword.principals import Principal
from everyword.server import Everyword
from everyword.server.node_settings import NodeSettings
from tests.postgres.server import Postgres
from tests.server.kit import serving
from tests.tcp_proxy import TcpProxy
from tests.timeouts import PATIENCE

LEASE = 1.0


class Node(NamedTuple):
    app: Everyword
    url: str
    stack: AsyncExitStack
    hooks: list[tuple[str, int]]
    """The hooks that ran on this node, with the close code."""


async def _serve(name: str, store: str, lease: float, expires_in: float | None) -> Node:
    hooks: list[tuple[str, int]] = []

    class Chat(AIChatAgent):
        async def on_connect(self, connection: Any, request: Any) -> None:
            hooks.append(("connect", 0))

        async def on_close(self, connection: Any, code: int, reason: str) -> None:
            hooks.append(("close", code))

    def authorize(_: object) -> Principal:
        return Principal("ann", expires_at=time.time() + expires_in if expires_in is not None else None)

    settings = NodeSettings(name=name, lease=lease)
    app, stack = Everyword([Chat], store=store, node=settings, authorize=authorize), AsyncExitStack()
    app.grace = 0.0
    return Node(app, await stack.enter_async_context(serving(app)), stack, hooks)


@asynccontextmanager
async def two_nodes(
    store: str, path: str | None = None, *, lease: float = LEASE, expires_in: float | None = None
) -> AsyncIterator[tuple[Node, Node]]:
    """Run two nodes in this process; the first one may have another path to the store."""
    first = await _serve("one", path or store, lease, expires_in)
    second = await _serve("two", store, lease, expires_in)
    async with second.stack, first.stack:
        yield first, second


class RawClient:
    """A socket that never reconnects."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket

    async def settled(self) -> None:
        """Wait for the reply to a call: whatever was sent before is here, and the agent is loaded."""
        await self.socket.send(json.dumps({"type": "rpc", "id": "mark", "method": "none", "args": []}))
        async with asyncio.timeout(PATIENCE):
            while json.loads(await self.socket.recv()).get("id") != "mark":
                pass


def connect(node: Node) -> websockets.connect:
    return websockets.connect(f"ws{node.url.removeprefix('http')}/agents/chat/a", max_size=None)


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def owned_by(node: Node) -> None:
    """Let this node be the owner, and its own client be gone."""
    async with connect(node) as socket:
        await RawClient(socket).settled()
    await until(lambda: len(node.hooks) == 2)
    node.hooks.clear()


@pytest.mark.parametrize("how", ["stop", "lose the lease"])
async def test_a_client_that_stays_while_its_agent_moves_is_not_closed(
    postgres_server: Postgres, postgres_url: str, how: str
) -> None:
    schema = postgres_url.rpartition("schema=")[2]
    async with TcpProxy(postgres_server.address) as proxy:
        path = f"{proxy.url(postgres_server.tcp_url)}?schema={schema}"
        lease = 600.0 if how == "stop" else LEASE
        async with two_nodes(postgres_url, path, lease=lease) as (one, two), AsyncExitStack() as stack:
            stack.push_async_callback(proxy.restore)  # before the nodes stop: they close connections to the database
            await owned_by(one)
            async with connect(two) as socket:
                client = RawClient(socket)
                await client.settled()
                if how == "stop":
                    await one.stack.aclose()
                else:
                    await proxy.swallow()
                directory = (await two.app.service()).directory
                await until(lambda: directory.peek(agent_id("chat", "a")) is not None)
                await client.settled()
                assert one.hooks == [("connect", 0)], "the client is still there"
                assert two.hooks == [], "it is the same connection"
            await until(lambda: bool(two.hooks))
            assert two.hooks == [("close", 1000)]
            assert one.hooks == [("connect", 0)]


async def test_the_owner_closes_the_connections_of_an_edge_that_dies(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (one, two):
        await owned_by(one)
        async with connect(two) as socket:
            await RawClient(socket).settled()
            node = (await two.app.service()).node
            assert node is not None
            await node.aclose()
            await until(lambda: ("close", 1006) in one.hooks)
        assert one.hooks == [("connect", 0), ("close", 1006)]


@pytest.mark.parametrize("how", ["disconnected", "expired"])
async def test_a_principal_that_may_not_stay_is_closed_and_not_moved(postgres_url: str, how: str) -> None:
    async with two_nodes(postgres_url, expires_in=2.0 if how == "expired" else None) as (one, two):
        await owned_by(one)
        async with connect(two) as socket:
            if how == "disconnected":
                await RawClient(socket).settled()
                assert await two.app.disconnect(principal="ann") == 1
            async with asyncio.timeout(PATIENCE):
                await socket.wait_closed()
            assert socket.close_code == 1012 and "session" in (socket.close_reason or "")
        await until(lambda: len(one.hooks) == 2)
        assert one.hooks == [("connect", 0), ("close", 1006)]
