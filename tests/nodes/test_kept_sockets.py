"""A client of a healthy node keeps its socket when the owner of its agent changes, and misses and repeats nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import websockets

from tests.nodes.serving import NodeProcess, running_nodes
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash

WORDS = [f"word{n} " for n in range(20)]


class RawClient:
    """A socket as a browser has it: it never reconnects by itself."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self.frames: list[dict[str, Any]] = []

    async def until(self, fact: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not fact():
                self.frames.append(json.loads(await self._socket.recv()))

    async def ask(self, text: str, **body: Any) -> None:
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
        asked = {"messages": [message], "trigger": "submit-message", **body}
        init = {"method": "POST", "body": json.dumps(asked)}
        await self._socket.send(json.dumps({"type": "cf_agent_use_chat_request", "id": "r1", "init": init}))

    @property
    def words(self) -> list[str]:
        """The words of the answer, in the order in which they came."""
        bodies = [frame["body"] for frame in self.frames if frame["type"] == "cf_agent_use_chat_response"]
        chunks = [json.loads(body) for body in bodies if body]
        return [chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta"]

    @property
    def is_done(self) -> bool:
        return any(frame["type"] == "cf_agent_use_chat_response" and frame["done"] for frame in self.frames)

    def count(self, kind: str) -> int:
        return sum(frame["type"] == kind for frame in self.frames)


def connect(node: NodeProcess, name: str = "a", kind: str = "chat") -> websockets.connect:
    return websockets.connect(f"ws://127.0.0.1:{node.port}/agents/{kind}/{name}", max_size=None)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_the_asker_keeps_its_socket_when_the_owner_goes(postgres_url: str, how: str) -> None:
    lease = 1.5 if how == "kill" else 600.0
    async with (
        running_nodes(postgres_url, "one", "two", "three", lease=lease) as (one, two, _),
        connect(one) as owners,
        connect(two) as socket,
    ):
        await RawClient(owners).until(lambda: True)
        client = RawClient(socket)
        await client.ask("".join(WORDS), hold=1)
        await client.until(lambda: len(client.words) == 10)
        await getattr(one, how)()
        await client.until(lambda: client.is_done)
        assert client.words == WORDS
        assert client.count("cf_agent_identity") == 1, "it was not greeted again"
        await socket.send(json.dumps({"type": "rpc", "id": "c", "method": "count", "args": []}))
        await client.until(lambda: client.count("rpc") == 1)
        assert client.frames[-1]["result"] == 1 or client.frames[-2].get("result") == 1
