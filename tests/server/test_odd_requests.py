"""Headers, queries and paths that no browser sends: refused with a sentence and a 4xx, and no failure of the server."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import pytest
from starlette.responses import PlainTextResponse

from everyword import AIChatAgent, Connecting, Everyword, Principal
from everyword.cli.playground import playground
from everyword.observe import Metrics
from everyword.runtime.phase import ShutdownPhase
from tests.server.kit import PATIENCE, chat, connect, question, scripted, serving
from tests.server.sockets import socket
from tests.server.test_every_entry_point import ABOUT_THE_SERVER, PLAYGROUND, http_paths

JUNK = (
    *(b"", b" ", b"\t", b"\x00", b"\xff\xfe", b"\xb2", "é".encode(), b"%", b"%ff", b"%00", b'"', b";;=", b"..", b"*"),
    *(b"[", b"http://[", b"http://a:b", b"http://localhost", b"null", b"1,2", b"-1", b"1e9", b"0x10", b"NaN"),
    *(b"9" * 18, b"9" * 19, b"9" * 5000, b"a" * 9000, b"Bearer ", b"Basic \xff"),
)
HEADERS = (
    *(b"origin", b"host", b"last-event-id", b"content-length", b"content-type", b"cookie", b"authorization", b"prefer"),
    *(b"idempotency-key", b"accept", b"access-control-request-headers", b"access-control-request-method"),
    *(b"if-none-match", b"transfer-encoding", b"connection", b"upgrade", b"x-forwarded-for"),
)
FIELDS = (b"limit", b"before", b"after", b"request", b"_pk", b"agent", b"seq", b"token")
BODIES = (b"", b"{}", b"[", b'{"messages":[]}', b'{"requestId":3}', b'{"requestId":"\\u0000"}', b"\xff", b"9" * 5000)


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> Any:
        yield "hello"

    async def on_request(self, request: Any) -> Any:
        return PlainTextResponse(f"{request.url} {request.cookies} {request.query_params}")

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        return True


async def authorize(connecting: Connecting) -> Principal:
    """Look at all of the request, as an application might."""
    request = connecting.request
    return Principal(f"ann {request.url} {request.cookies} {request.query_params}"[:50])


def doors() -> list[tuple[str, bytes]]:
    """Return every way in as (method, path), in the order of the list of doors."""
    own = [(method, f"/agents/chat/ann/{path.replace('leaf', 'chat')}".encode()) for method, path in http_paths()]
    pages = [("GET", f"/playground/{name}".encode()) for name in sorted(PLAYGROUND)]
    return [*own, *pages, *(("GET", path.encode()) for path in sorted(ABOUT_THE_SERVER))]


async def status_of(
    app: Any, method: str, path: bytes, *, query: bytes = b"", headers: Any = (), body: bytes = b""
) -> int:
    """Send one request as a web server would hand it over; return the status of the answer, and go away."""
    answered, pieces = asyncio.Event(), [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[int] = []

    async def receive() -> Any:
        if pieces:
            return pieces.pop()
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            assert not [value for _, value in message["headers"] if {*b"\r\n\x00"} & {*value}]
        if message["type"] == "http.response.body" or path.endswith(b"events"):
            answered.set()

    given = [(b"host", b"localhost")] if b"host" not in dict(headers) else []
    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode(errors="replace"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [*given, *headers],
        "client": ("127.0.0.1", 5000),
    }
    async with asyncio.timeout(PATIENCE):
        await app(scope, receive, send)
    return statuses[0]


def guarded(**options: Any) -> Everyword:
    return chat(Chat, authorize=authorize, observe=[Metrics()], **options)


@pytest.mark.parametrize("origins", [(), "*", ["http://localhost:*"]], ids=str)
async def test_no_header_makes_the_server_fail(origins: Any) -> None:
    app = guarded(origins=origins)
    found: Counter[int] = Counter()
    async with app:
        ways = itertools.cycle(doors())
        for (name, value), body in zip(itertools.product(HEADERS, JUNK), itertools.cycle(BODIES), strict=False):
            for _ in range(3):
                method, path = next(ways)
                status = await status_of(playground(app), method, path, headers=[(name, value)], body=body)
                assert status < 500, (method, path, name, value, body)
                found[status] += 1
    assert found[400] and found[200] and found.total() == 3 * len(HEADERS) * len(JUNK)


@pytest.mark.parametrize("is_quoted", [False, True])
async def test_no_query_makes_the_server_fail(is_quoted: bool) -> None:
    app = guarded()
    found: Counter[int] = Counter()
    async with app:
        ways = itertools.cycle(doors())
        for field, value in itertools.product(FIELDS, JUNK):
            query = field + b"=" + (quote(value).encode() if is_quoted else value)
            for path in (b"/playground/log", b"/agents/chat/ann/get-messages", b"/agents/chat/ann/chat/stream"):
                more = b"agent=chat/ann&" if path == b"/playground/log" and field != b"agent" else b""
                found[await status_of(playground(app), "GET", path, query=more + query)] += 1
            method, path = next(ways)
            found[await status_of(playground(app), method, path, query=query)] += 1
    assert max(found) < 500 and found[400] and found[200]


async def test_no_name_in_a_path_makes_the_server_fail() -> None:
    app = guarded()
    found: Counter[int] = Counter()
    async with app:
        for value, is_quoted in itertools.product(JUNK, (False, True)):
            name = quote(value).encode() if is_quoted else value
            for path in (b"/agents/chat/%b/own", b"/agents/%b/ann/own", b"/agents/chat/ann/sub/chat/%b/own", b"/%b"):
                found[await status_of(playground(app), "GET", path % name)] += 1
    assert max(found) < 500 and found[404] and found[200]


@pytest.mark.parametrize("limit", ["9" * 19, "9" * 5000, "0" * 5000])
async def test_a_limit_with_thousands_of_digits_is_refused_over_a_real_socket(limit: str) -> None:
    async with serving(chat(scripted(["x"]))) as url, connect(f"{url}/agents/chat/ann") as client:
        answer = await client.get("get-messages", params={"limit": limit})
        assert (answer.status_code, "`limit` is too large" in answer.text) == (400, True)


async def test_an_origin_that_cannot_be_read_is_refused_over_a_real_socket() -> None:
    async with serving(chat(scripted(["x"]), origins=["http://localhost:*"])) as url:
        async with connect(f"{url}/agents/chat/ann") as client:
            for method in ("GET", "OPTIONS"):
                answer = await client.request(method, "get-messages", headers={"origin": "http://["})
                assert (answer.status_code, "unable to read the Origin" in answer.text) == (400, True)
        async with socket(url, origin="http://[") as refused:
            code, reason = await refused.closed()
            assert (code, "unable to read the Origin" in reason) == (1008, True)


async def test_a_request_id_with_line_breaks_adds_no_header() -> None:
    async with serving(chat(scripted(["x"]))) as url, socket(url) as tab:
        request = "r1\r\nset-cookie: a=b\x00\x7f"
        await tab.ask(request)
        await tab.ended(request)
        async with connect(f"{url}/agents/chat/ann") as client:
            answer = await client.get("chat/stream", params={"request": request})
            assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)
            assert answer.headers["x-everyword-request"] == r"r1\x0d\x0aset-cookie: a=b\x00\x7f"


@pytest.mark.parametrize("answer", [{"a": 1}, "text", 7, ["x"]])
async def test_an_answer_of_the_agent_that_is_no_response_is_a_sentence(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Chat(AIChatAgent):
        async def on_request(self, request: Any) -> Any:
            return answer

    async with serving(chat(Chat)) as url, connect(f"{url}/agents/chat/ann") as client:
        found = await client.get("own")
        assert (found.status_code, found.text) == (500, "unable to answer; the agent failed\n")
    assert "return a Starlette response, or None" in caplog.text


async def test_a_path_of_the_agents_own_is_refused_while_the_server_stops() -> None:
    app = chat(Chat)
    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        directory = (await app.start()).directory
        directory.phase = ShutdownPhase.CLOSED
        answer = await client.post("own", json=question())
        directory.phase = ShutdownPhase.SERVING
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
