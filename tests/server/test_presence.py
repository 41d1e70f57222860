"""Who is connected to a conversation: told to sockets that ask for it, over HTTP, and in Python."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
from starlette.requests import HTTPConnection

from everyword import Everyword, Participant, Principal
from everyword.testing import Gate
from tests.server.kit import PATIENCE, connect, question, scripted, serving
from tests.server.sockets import Socket, socket

ANN, BOB, CID = ({"id": who, "name": who.title()} for who in ("ann", "bob", "cid"))


def by_header(connection: HTTPConnection) -> Principal | None:
    who = connection.headers.get("x-user") or connection.query_params.get("user")
    return Principal(who, name=who.title()) if who else None


def not_cid(principal: Principal, action: str, kind: str, name: str) -> bool:
    return principal.id != "cid"


@asynccontextmanager
async def running(agent: type | None = None) -> AsyncIterator[tuple[Everyword, str, httpx.AsyncClient]]:
    app = Everyword([agent or scripted(["hello"])], store="memory:", authenticate=by_header, authorize=not_cid)
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        yield app, url, client


def is_presence(frame: dict[str, Any]) -> bool:
    return frame["type"] == "everyword_presence"


async def until_here(tab: Socket, *principals: dict[str, str]) -> None:
    """Read until the socket is told that these principals are here."""
    await tab.until(lambda frame: is_presence(frame) and frame["principals"] == list(principals))


@asynccontextmanager
async def live(client: httpx.AsyncClient, who: str, name: str = "room") -> AsyncIterator[AsyncIterator[Any]]:
    headers = {"x-user": who, "accept": "text/event-stream"}
    async with client.stream("GET", f"/agents/chat/{name}/presence", headers=headers) as response:
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")

        async def lists() -> AsyncIterator[Any]:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))["principals"]

        yield lists()


async def here(client: httpx.AsyncClient, who: str = "ann", name: str = "room") -> Any:
    response = await client.get(f"/agents/chat/{name}/presence", headers={"x-user": who})
    assert response.status_code == 200, response.text
    return response.json()["principals"]


async def test_a_socket_that_asks_for_it_is_told_who_comes_and_leaves() -> None:
    async with running() as (_, url, client):
        assert await here(client) == []
        async with socket(url, "?user=ann&presence=1", "room") as ann:
            await until_here(ann, ANN)
            async with socket(url, "?user=bob&presence=1", "room") as bob, socket(url, "?user=bob", "room"):
                await until_here(ann, ANN, BOB)
                await until_here(bob, ANN, BOB)
                assert await here(client) == [ANN, BOB]
                assert await here(client, name="another") == []
            await until_here(ann, ANN)
        async with live(client, "bob") as lists:
            while await anext(lists) != [BOB]:
                pass


async def test_a_principal_is_here_until_its_last_connection_ends() -> None:
    async with running() as (_, url, client), live(client, "ann") as lists:
        assert await anext(lists) == [ANN]
        async with socket(url, "?user=bob", "room") as first:
            await first.greeted()
            assert await anext(lists) == [ANN, BOB]
            async with socket(url, "?user=bob", "room") as second:
                await second.greeted()
            async with socket(url, "?user=eve", "room") as other:
                await other.greeted()
                assert await anext(lists) == [ANN, BOB, {"id": "eve", "name": "Eve"}]
            assert await anext(lists) == [ANN, BOB]
        assert await anext(lists) == [ANN]


async def test_a_socket_that_did_not_ask_is_not_told() -> None:
    async with running() as (_, url, _client), socket(url, "?user=ann", "room") as ann:
        async with socket(url, "?user=bob", "room") as bob:
            await bob.settled()
        await ann.settled()
        assert ann.frames
        assert not [frame for frame in ann.frames if is_presence(frame)]


async def test_a_client_of_the_ai_sdk_is_here_while_it_reads_its_answer() -> None:
    gate = Gate()
    async with running(scripted(["hello", gate])) as (_, _url, client), live(client, "bob") as lists:
        assert await anext(lists) == [BOB]
        asked = question("hi")
        async with client.stream("POST", "/agents/chat/room/chat", json=asked, headers={"x-user": "ann"}) as response:
            assert response.status_code == 200
            assert await anext(lists) == [BOB, ANN]
            gate.open()
            await response.aread()
        assert await anext(lists) == [BOB]


async def test_python_asks_and_watches() -> None:
    async with running() as (app, url, _client):
        assert await app.conversations.presence("chat", "room") == []
        async with aclosing(app.conversations.watch_presence("chat", "room")) as lists:
            assert await anext(lists) == []
            async with socket(url, "?user=ann", "room"):
                assert await anext(lists) == [Participant("ann", "Ann")]
                assert await app.conversations.presence("chat", "room") == [Participant("ann", "Ann")]
            assert await anext(lists) == []


async def test_who_may_not_read_is_not_told() -> None:
    async with running() as (_, _url, client):
        refused = await client.get("/agents/chat/room/presence", headers={"x-user": "cid"})
        assert refused.status_code == 403
        assert (await client.get("/agents/chat/room/presence")).status_code == 401
        assert (await client.post("/agents/chat/room/presence", headers={"x-user": "ann"})).status_code == 405


async def test_a_principal_that_is_disconnected_is_gone() -> None:
    async with running() as (app, url, client), live(client, "ann") as lists:
        assert await anext(lists) == [ANN]
        async with socket(url, "?user=bob", "room") as bob:
            assert await anext(lists) == [ANN, BOB]
            await app.disconnect(principal="bob")
            await bob.closed_after_frames()
            assert await anext(lists) == [ANN]
