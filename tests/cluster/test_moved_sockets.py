"""The edge takes a socket to the next owner without haste, and gives up after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from starlette.types import Message

from everyword.cluster import asgi_relay
from everyword.cluster.asgi_relay import relay
from everyword.cluster.link import NodeLink
from everyword.cluster.link_frames import LONGEST_PAYLOAD
from everyword.cluster.relay_records import ACCEPT, PROGRESS, Accept, Close, Progress
from everyword.cluster.streams import LinkStream
from everyword.errors import AgentStopped
from tests.cluster.kit import OWNER, Streams, nodes, soon, until

SCOPE = {"type": "websocket", "path": "/", "headers": []}
CANCEL = '{"type":"cf_agent_chat_request_cancel","id":"r"}'
CALL = '{"type":"rpc","id":"c","method":"m","args":[]}'


class Client:
    """The client of a relayed socket: what it sends, and what it was sent."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def say(self, text: str) -> None:
        self.incoming.put_nowait({"type": "websocket.receive", "text": text})

    @property
    def closed(self) -> tuple[int, str] | None:
        last = self.sent[-1]
        return (last["code"], last["reason"]) if last["type"] == "websocket.close" else None


async def serve(stream: LinkStream, **progress: Any) -> None:
    """Be an owner that takes the socket."""
    await stream.send(ACCEPT, msgspec.json.encode(Accept()))
    await stream.send(PROGRESS, msgspec.json.encode(Progress(**{"cursor": 1, "resume": b"view", **progress})))


def refuse(stream: LinkStream, code: int, reason: str = "") -> None:
    """Be an owner that does not take the socket."""
    stream.close(msgspec.json.encode(Close(code, reason, moves=code == 1012)))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_relay, "MOVE_SECONDS", 0.3)


def finder(
    link: NodeLink, looked: list[float], then: Callable[[], object] = lambda: None
) -> Callable[[], Awaitable[NodeLink]]:
    async def find_owner() -> NodeLink:
        looked.append(asyncio.get_running_loop().time())
        assert len(looked) < 1000, "it looks without a pause"
        then()
        return link

    return find_owner


async def test_a_socket_that_cannot_be_opened_is_tried_with_pauses_and_closed_with_1013(quick: None) -> None:
    owner, client, looked = Streams(), Client(), list[float]()
    async with nodes(owner) as pair:
        link = await pair.dial(OWNER)
        find_owner = finder(link, looked, lambda: setattr(link._streams, "_most", 0))
        relaying = asyncio.create_task(relay(link, SCOPE, client.incoming.get, client.send, find_owner=find_owner))
        stream = await owner.next()
        await serve(stream)
        await until(lambda: bool(client.sent))
        stream.reset()
        await soon(relaying)
        link._streams._most = 1000
    assert 3 <= len(looked) <= 10
    assert client.closed == (1013, "unable to serve the socket right now; connect again in a moment")


@pytest.mark.parametrize("code", [1012, 1013])
async def test_owners_that_refuse_are_asked_with_pauses_and_the_last_refusal_reaches_the_client(
    quick: None, code: int
) -> None:
    owner, client, looked = Streams(), Client(), list[float]()
    async with nodes(owner) as pair:
        link = await pair.dial(OWNER)
        find_owner = finder(link, looked)
        relaying = asyncio.create_task(relay(link, SCOPE, client.incoming.get, client.send, find_owner=find_owner))
        await serve(await owner.next())
        await until(lambda: bool(client.sent))

        async def refuse_all() -> None:
            while True:
                refuse(await owner.next(), code, "not yet")

        (await pair.owner_end())._streams._streams.popitem()[1].reset()
        refusing = asyncio.create_task(refuse_all())
        await soon(relaying)
        refusing.cancel()
        await asyncio.wait({refusing})
    assert 3 <= len(looked) <= 10
    assert client.closed == (code, "not yet")


async def test_a_call_that_comes_while_the_socket_moves_waits_for_the_owner_that_takes_it() -> None:
    owner, client, looked = Streams(), Client(), list[float]()
    async with nodes(owner) as pair:
        link = await pair.dial(OWNER)
        find_owner = finder(link, looked, lambda: client.say(CALL) if len(looked) == 1 else None)
        relaying = asyncio.create_task(relay(link, SCOPE, client.incoming.get, client.send, find_owner=find_owner))
        stream = await owner.next()
        await serve(stream)
        client.say(CANCEL)
        assert await soon(stream.receive()) == b"t" + CANCEL.encode()
        refuse(stream, 1012)
        refusing = await owner.next()
        assert await soon(refusing.receive()) == b"t" + CANCEL.encode(), "it was not decided"
        await until(client.incoming.empty)
        refuse(refusing, 1013)
        taking = await owner.next()
        await serve(taking, cursor=2)
        assert await soon(taking.receive()) == b"t" + CANCEL.encode()
        assert await soon(taking.receive()) == b"t" + CALL.encode()
        client.incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await soon(relaying)
        taking.close()
    assert client.closed is None and len(looked) == 2


async def test_a_socket_is_closed_at_once_if_the_next_owner_needs_too_much() -> None:
    owner, client = Streams(), Client()

    async def find_owner() -> NodeLink:
        raise AssertionError("there is nothing to look for")

    async with nodes(owner) as pair:
        link = await pair.dial(OWNER)
        scope = {**SCOPE, "headers": [(b"x", b"x" * (LONGEST_PAYLOAD // 4))]}
        relaying = asyncio.create_task(relay(link, scope, client.incoming.get, client.send, find_owner=find_owner))
        stream = await owner.next()
        await serve(stream, resume=b"x" * (LONGEST_PAYLOAD * 5 // 8))
        await until(lambda: bool(client.sent))
        stream.reset()
        await soon(relaying)
    assert client.closed == (1012, "restarting")


async def test_a_socket_without_another_owner_is_closed_with_1012() -> None:
    owner, client = Streams(), Client()

    async def find_owner() -> NodeLink:
        raise AgentStopped("none")

    async with nodes(owner) as pair:
        link = await pair.dial(OWNER)
        relaying = asyncio.create_task(relay(link, SCOPE, client.incoming.get, client.send, find_owner=find_owner))
        stream = await owner.next()
        await serve(stream)
        await until(lambda: bool(client.sent))
        stream.reset()
        await soon(relaying)
    assert client.closed == (1012, "restarting")


async def test_a_close_that_is_meant_for_the_client_reaches_it() -> None:
    """1012 also ends the session of a principal: it must not be taken for the end of an owner."""
    owner, client, looked = Streams(), Client(), list[float]()
    async with nodes(owner) as pair:
        link = await pair.dial(OWNER)
        find_owner = finder(link, looked)
        relaying = asyncio.create_task(relay(link, SCOPE, client.incoming.get, client.send, find_owner=find_owner))
        stream = await owner.next()
        await serve(stream)
        await until(lambda: bool(client.sent))
        stream.close(msgspec.json.encode(Close(1012, "session over")))
        await soon(relaying)
    assert client.closed == (1012, "session over") and looked == []
