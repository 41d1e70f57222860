"""A deploy: three nodes are replaced one by one, by a release with a newer schema, while a hundred chats stream."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import websockets

from everyword.client import ChatClient
from everyword.client.backoff import Backoff
from tests.nodes.releases import NEW, OLD
from tests.nodes.serving import NodeProcess, running_nodes
from tests.nodes.test_nodes import look
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash

CHATS = 100


class Balancer:
    """Connects each client to the node that it prefers, or to another one that serves."""

    def __init__(self, nodes: Sequence[NodeProcess]) -> None:
        self.serving = list(nodes)

    def choose(self, preferred: NodeProcess) -> NodeProcess:
        return preferred if preferred in self.serving else self.serving[0]


class Client:
    """A client of one chat, and what it has seen."""

    def __init__(self, balancer: Balancer, chat: str, preferred: NodeProcess) -> None:
        self.chat, self.node, self.sockets = chat, preferred, 0
        self._balancer, self._preferred = balancer, preferred
        self.text = ""
        self.seen_at = self.silence = 0.0
        self.wrong: list[str] = []
        self.client = ChatClient(
            preferred.url, "endless", chat, connect=self._connect, backoff=Backoff(first=0.05, most=0.5)
        )
        self.client.connection.listen(self._note)

    async def _connect(self, url: str, headers: Any) -> websockets.ClientConnection:
        self.node = self._balancer.choose(self._preferred)
        self.sockets += 1
        parts = urlsplit(url)._replace(netloc=f"127.0.0.1:{self.node.port}")
        return await websockets.connect(parts.geturl(), additional_headers=headers, max_size=None, close_timeout=1)

    def _note(self) -> None:
        messages = self.client.protocol.messages
        text = "".join(part.get("text", "") for part in messages[-1]["parts"]) if len(messages) == 2 else ""
        if len(messages) > 2 or not text.startswith(self.text):
            self.wrong.append(f"{len(messages)} messages, {text[-30:]!r} after {self.text[-30:]!r}")
        if text != self.text:
            now = asyncio.get_running_loop().time()
            self.silence = max(self.silence, now - self.seen_at if self.text else 0.0)
            self.text, self.seen_at = text, now

    async def until_more(self) -> None:
        before = len(self.text)
        await self.client.connection.until(lambda: len(self.text) > before)


def spoken(text: str) -> bool:
    """Return whether the text counts from 0 without a hole or a double."""
    return bool(text) and text == "".join(f"{number} " for number in range(len(text.split())))


async def owners(store: str) -> dict[str, str]:
    """Return the node of each chat."""
    rows = await look(
        store,
        "select a.id, n.name from everyword.agent a join everyword.node n on n.id = a.node where n.state <> 'gone'",
    )
    return {agent.removeprefix("endless/"): name for agent, name in rows}


async def uses_of_the_feature(store: str) -> int:
    ((count,),) = await look(store, "select count(*) from everyword.event where kind = 'state.set'")
    return int(count)


async def roll(store: str, node: NodeProcess, clients: Sequence[Client], balancer: Balancer) -> tuple[int, float]:
    """Replace a node by the new release; return how many sockets outlived their owner, and the longest silence."""
    owned = {chat for chat, name in (await owners(store)).items() if name == node.name}
    balancer.serving.remove(node)
    kept = [client for client in clients if client.chat in owned and client.node is not node]
    sockets = [client.sockets for client in kept]
    for client in kept:
        client.silence = 0.0
    assert await node.stop() == ""
    assert not {chat for chat, name in (await owners(store)).items() if name == node.name}
    await asyncio.gather(*(client.until_more() for client in kept))  # by an owner that lives
    assert [client.sockets for client in kept] == sockets, "no socket of another node was lost"
    longest = max(client.silence for client in kept)
    node.release = NEW
    await node.start()
    balancer.serving.append(node)
    await asyncio.gather(*(client.until_more() for client in clients))
    return len(kept), longest


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_rolling_deploy_of_another_release_loses_nothing(postgres_url: str, tmp_path: Path) -> None:
    names = [f"chat{number}" for number in range(CHATS)]
    end = tmp_path / "end"
    async with running_nodes(postgres_url, "one", "two", "three", lease=600) as nodes, AsyncExitStack() as stack:
        balancer = Balancer(nodes)
        askers = [Client(balancer, name, nodes[n % 3]) for n, name in enumerate(names)]
        watchers = [Client(balancer, name, nodes[(n + 1) % 3]) for n, name in enumerate(names)]
        clients = [*askers, *watchers]
        for group in (askers, watchers):  # the asker comes first, so its node is the owner
            await asyncio.gather(*(stack.enter_async_context(each.client) for each in group))
        replies = [asker.client.send(str(end)) for asker in askers]
        async with asyncio.timeout(4 * PATIENCE):
            await asyncio.gather(*(client.until_more() for client in clients))
            assert sorted(set((await owners(postgres_url)).values())) == ["one", "three", "two"]
            for node in nodes:
                assert await uses_of_the_feature(postgres_url) == 0, "a node of the old release lives"
                kept, longest = await roll(postgres_url, node, clients, balancer)
                sys.stdout.write(
                    f"{node.name}: {kept} sockets outlived their owner, silent for {longest:.2f} s at most\n"
                )
                assert kept > 0
            while not await uses_of_the_feature(postgres_url):
                pass  # a node learns of the last old node's end with its next heartbeat
            end.touch()
            for reply in replies:
                await reply
            assert {reply.outcome for reply in replies} == {"completed"}
            for watcher, asker in zip(watchers, askers, strict=True):
                await watcher.client.connection.until(lambda one=watcher, other=asker: one.text == other.text)
        assert [client.wrong for client in clients if client.wrong] == []
        assert all(spoken(asker.text) for asker in askers)
        for node in nodes:
            async with httpx.AsyncClient(base_url=node.url) as http:
                stored = {name: await stored_texts(http, name) for name in names}
            assert stored == {asker.chat: [str(end), asker.text] for asker in askers}, node.name
        turns = await look(
            postgres_url, "select kind, count(*) from everyword.event where kind like 'turn.%' group by 1"
        )
        assert sorted(turns) == [("turn.accepted", CHATS), ("turn.ended", CHATS)]
        await nodes[0].stop()
        nodes[0].release = OLD
        with pytest.raises(AssertionError, match="the server did not start"):  # what is stored needs the new release
            await nodes[0].start()


async def stored_texts(http: httpx.AsyncClient, chat: str) -> list[str]:
    messages = (await http.get(f"/agents/endless/{chat}/get-messages")).json()
    return ["".join(part.get("text", "") for part in message["parts"]) for message in messages]
