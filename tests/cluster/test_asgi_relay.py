"""A relayed application sees, and its clients see, what they would without a link."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from everyword.cluster.asgi_relay import relay
from everyword.cluster.link import NodeLink
from everyword.cluster.streams import WINDOW
from everyword.errors import BadLinkFrame
from tests.cluster.kit import EDGE, OWNER, PATIENCE, soon, until
from tests.cluster.recorded_app import MEGABYTES, RecordedApp, served
from tests.server.kit import connect

Scenario = Callable[[str, RecordedApp], Awaitable[Any]]
VOLATILE = ("server", "client", "extensions", "state", "app")


def socket(url: str, path: str, **options: Any) -> Any:
    where = urlsplit(url)
    given = {"open_timeout": PATIENCE, "ping_interval": None, "max_size": None, "proxy": None, "compression": None}
    return open_socket(f"ws://{where.netloc}/{path}", **{**given, **options})


async def _chunks() -> AsyncIterator[bytes]:
    for number in range(20):
        yield b"%d" % number * 20_000


async def echo_over_http(url: str, app: RecordedApp) -> Any:
    async with connect(url) as client:
        found = []
        for method, body in (("POST", _chunks()), ("PUT", b"whole"), ("GET", b""), ("DELETE", b"x" * 300_000)):
            response = await client.request(
                method, "/echo/a%2Fb/%C3%A9?q=%2F&r=1", content=body, headers={"x": "é".encode("latin-1")}
            )
            headers = [pair for pair in response.headers.raw if pair[0] not in (b"date", b"server")]
            found.append((response.status_code, headers, response.content))
        return found


async def events_over_http(url: str, app: RecordedApp) -> Any:
    found = []
    async with connect(url) as client, client.stream("GET", "/events") as response:
        async for line in response.aiter_lines():
            found.append(line)
            if line:
                app.go.set()  # an event is here before the next one is made
    return response.headers["content-type"], found


async def client_leaves_a_response(url: str, app: RecordedApp) -> Any:
    async with connect(url) as client, client.stream("GET", "/endless") as response:
        assert await anext(response.aiter_raw()) == b"begun"
    await soon(app.left.wait())
    return "left"


async def client_leaves_before_a_response(url: str, app: RecordedApp) -> Any:
    async with connect(url) as client:
        asking = asyncio.create_task(client.get("/waits"))
        await soon(app.go.wait())
        asking.cancel()
        await asyncio.wait({asking})
    await soon(app.left.wait())
    return "left"


async def response_is_cut(url: str, app: RecordedApp) -> Any:
    async with connect(url) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/cut")
    return "cut"


async def application_fails(url: str, app: RecordedApp) -> Any:
    async with connect(url) as client:
        response = await client.get("/fails")
    return response.status_code, response.content


async def large_response(url: str, app: RecordedApp) -> Any:
    async with connect(url) as client:
        return (await client.get("/large")).content


async def body_is_not_read(url: str, app: RecordedApp) -> Any:
    async with connect(url) as client:
        return [(await client.post("/refuses", content=b"x" * size)).status_code for size in (10, 1_000_000)]


async def echo_over_a_socket(url: str, app: RecordedApp) -> Any:
    protocols = [Subprotocol("first"), Subprotocol("second")]
    async with socket(url, "echo/a%2Fb?q=1", subprotocols=protocols, additional_headers={"x-y": "z"}) as client:
        found: list[Any] = [client.subprotocol, client.response.headers["x-chosen"]]
        for message in ("text", "é" * 50_000, "", b"bytes", b"", bytes(range(256)) * 1000, "x" * MEGABYTES):
            await client.send(message)
            found.append(await client.recv())
        await client.close(4001, "bye é")
    await soon(app.left.wait())
    return found


async def application_closes(url: str, app: RecordedApp) -> Any:
    async with socket(url, "echo") as client:
        await client.send("close")
        return await _closed(client)


async def application_returns(url: str, app: RecordedApp) -> Any:
    async with socket(url, "echo") as client:
        await client.send("return")
        return await _closed(client)


async def socket_application_fails(url: str, app: RecordedApp) -> Any:
    async with socket(url, "fails") as client:
        return await _closed(client)


async def socket_is_refused(url: str, app: RecordedApp) -> Any:
    found = []
    for path in ("refuses", "answers"):
        with pytest.raises(InvalidStatus) as refused:
            await socket(url, path)
        response = refused.value.response
        found.append((response.status_code, response.headers.get("x-why"), response.body))
    return found


async def many_frames_at_once(url: str, app: RecordedApp) -> Any:
    async with socket(url, "frames") as client:
        found = [json.loads(await client.recv()) for _ in range(300)]
        return found, await client.recv(), await _closed(client)


async def client_vanishes(url: str, app: RecordedApp) -> Any:
    async with socket(url, "echo") as client:
        await client.send("x")
        await client.recv()
        client.transport.abort()
        await soon(app.left.wait())
    return "gone"


async def _closed(client: ClientConnection) -> Any:
    with pytest.raises(ConnectionClosed) as closed:
        await soon(client.recv())
    received = closed.value.rcvd
    return (received.code, received.reason) if received is not None else None


SCENARIOS = [
    echo_over_http,
    events_over_http,
    client_leaves_a_response,
    client_leaves_before_a_response,
    response_is_cut,
    application_fails,
    large_response,
    body_is_not_read,
    echo_over_a_socket,
    application_closes,
    application_returns,
    socket_application_fails,
    socket_is_refused,
    many_frames_at_once,
    client_vanishes,
]


def _has_no_streams(link: NodeLink) -> bool:
    return link.open_streams == 0


def seen_by(app: RecordedApp) -> tuple[list[Any], list[Any]]:
    """Return scopes and messages without what depends on the connection and on where TCP has cut."""
    scopes = []
    for scope in app.scopes:
        kept = {key: value for key, value in scope.items() if key not in VOLATILE}
        kept["headers"] = [pair for pair in kept["headers"] if pair[0] not in (b"host", b"sec-websocket-key")]
        scopes.append(kept)
    messages: list[Any] = []
    for message in app.seen:
        if message["type"] == "http.request":
            if messages and isinstance(messages[-1], bytearray):
                messages[-1] += message["body"]
            else:
                messages.append(bytearray(message["body"]))
        else:
            messages.append({key: value for key, value in message.items() if value not in (None, "")})
    return scopes, messages


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_a_relayed_application_and_its_clients_notice_no_difference(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    found = []
    for is_relayed in (False, True):
        app = RecordedApp()
        async with served(app, is_relayed=is_relayed) as (url, pair):
            shown = await soon(scenario(url, app))
            if pair is not None:
                await until(partial(_has_no_streams, await pair.dial()))
        found.append((shown, *seen_by(app)))
    assert found[1] == found[0]


async def test_the_owner_gets_what_the_edge_attached_and_who_the_client_is() -> None:
    app = RecordedApp()
    async with served(app, is_relayed=True, attached=b"\0any bytes") as (url, _), connect(url) as client:
        await client.get("/echo")
        async with socket(url, "echo"):
            pass
        await soon(app.left.wait())
    for scope in app.scopes:
        relayed = scope["extensions"]["everyword.relayed"]
        assert (relayed["attached"], relayed["from"]) == (b"\0any bytes", EDGE)
        assert scope["client"][0] == "127.0.0.1" and scope["client"][1] > 0
        assert scope["server"] == ("127.0.0.1", urlsplit(url).port)


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_a_socket_is_closed_with_1012_when_its_owner_is_lost(is_accepted: bool) -> None:
    app = RecordedApp()
    async with served(app, is_relayed=True) as (url, pair):
        if is_accepted:
            async with socket(url, "echo") as client:
                await client.send("x")
                await client.recv()
                pair.links.drop(OWNER)
                assert await _closed(client) == (1012, "restarting")
        else:
            async with RefusingOwner(pair), socket(url, "echo") as client:
                assert await _closed(client) == (1012, "restarting")


class RefusingOwner:
    """Lets the link of a pair have no room for streams: nothing can be opened."""

    def __init__(self, pair: Any) -> None:
        self._pair = pair

    async def __aenter__(self) -> None:
        self._link = await self._pair.dial()
        self._link._streams._most = 0

    async def __aexit__(self, *exc: object) -> None:
        self._link._streams._most = 1000


async def test_a_request_gets_503_when_its_owner_is_lost_before_the_response() -> None:
    app = RecordedApp()
    async with served(app, is_relayed=True) as (url, pair), connect(url) as client:
        asking = asyncio.create_task(client.get("/waits"))
        await soon(app.go.wait())
        (await pair.owner_end()).abort("the test says so")
        response = await soon(asking)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        await soon(app.left.wait())
        assert (await client.get("/echo")).status_code == 201, "the next request dials again"


async def test_a_response_is_cut_when_its_owner_is_lost_later(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    app = RecordedApp()
    async with served(app, is_relayed=True) as (url, pair), connect(url) as client:
        async with client.stream("GET", "/endless") as response:
            body = response.aiter_raw()
            assert await anext(body) == b"begun"
            (await pair.owner_end()).abort("the test says so")
            with pytest.raises(httpx.RemoteProtocolError):
                await soon(anext(body))
        await soon(app.left.wait())


async def test_a_server_without_the_extension_gets_one_message_per_frame() -> None:
    found = []
    for protocol in ("everyword.server.uvicorn_websocket:UvicornWebSocketProtocol", "websockets-sansio"):
        async with served(RecordedApp(), is_relayed=True, ws=protocol) as (url, _):
            found.append(await soon(many_frames_at_once(url, RecordedApp())))
    assert found[0] == found[1]


async def test_a_header_that_cannot_be_read_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with served(RecordedApp(), is_relayed=True) as (_, pair):
        link = await pair.dial()
        for header in (b"\1", b"\1{}", b'\1{"type":"lifespan","path":"/","headers":[]}'):
            stream = link.open(header)
            failure = await soon(stream.broken)
            assert getattr(failure, "remote_code", None) == BadLinkFrame.code
        assert link.is_usable


async def test_a_header_of_a_newer_release_is_read() -> None:
    app = RecordedApp()
    async with served(app, is_relayed=True) as (_, pair):
        link = await pair.dial()
        header = {"type": "http", "path": "/echo", "headers": [], "method": "GET", "cursor": 7, "view": {"a": [1]}}
        stream = link.open(b"\1" + json.dumps(header).encode())
        await stream.send(b"d\0")
        assert (await soon(stream.receive()))[:1] == b"s"
        stream.close()


async def test_messages_that_come_at_once_leave_others_a_turn() -> None:
    app, seen_in_a_turn = RecordedApp(), []
    async with served(app, is_relayed=True) as (_, pair):
        link = await pair.dial()
        header = {"type": "websocket", "path": "/reads", "headers": []}
        stream = link.open(b"\1" + json.dumps(header).encode())
        for _ in range(1000):
            assert stream.write(b"tx")
        stream.finish()
        async with asyncio.timeout(PATIENCE):
            while not app.left.is_set():
                before = len(app.seen)
                await asyncio.sleep(0)
                seen_in_a_turn.append(len(app.seen) - before)
        stream.close()
    assert len(app.seen) == 1002 and max(seen_in_a_turn) <= 129


async def test_a_client_that_does_not_read_is_closed_when_the_owner_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everyword.cluster.asgi_relay.CLOSE_SECONDS", 0.05)
    app, sent = RecordedApp(), []

    async def send(message: Message) -> None:
        """Be the server of a client that reads nothing: what is sent to it waits for ever, except for a close."""
        sent.append(message["type"])
        if message["type"] == "websocket.send":
            await asyncio.get_running_loop().create_future()

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    async with served(app, is_relayed=True) as (_, pair):
        near, scope = await pair.dial(), {"type": "websocket", "path": "/floods", "headers": []}
        relaying = asyncio.create_task(relay(near, scope, receive, send))
        far = await pair.owner_end()
        await until(lambda: far.open_streams)
        (stream,), (waiting,) = far._streams._streams.values(), near._streams._streams.values()
        await until(lambda: stream._room is not None and waiting._unread + stream._credit == WINDOW)
        assert waiting._unread > WINDOW - 100_000
        app.go.set()
        await soon(relaying)
        assert sent == ["websocket.accept", "websocket.send", "websocket.close"]
        await until(lambda: near.open_streams == far.open_streams == 0)
