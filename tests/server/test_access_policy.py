"""Access control: which clients and pages are admitted, and the texts of refusals (I-14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse

from everyword import AIChatAgent
from everyword.errors import UsageError
from everyword.server import Connecting, Everyword, Principal, Reject
from everyword.server.access_policy import AccessPolicy
from everyword.server.agent_urls import ResourceAddress, find_address
from everyword.server.permissions import Permissions
from everyword.server.playground import PlaygroundFeed
from everyword.testing import Gate
from tests.server.kit import ask, chat, connect, question, reading, scripted, serving, talking
from tests.server.sockets import socket

LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"]
ELSEWHERE = ["10.0.0.1", "192.168.1.2", "203.0.113.7", "::ffff:203.0.113.7", "2001:db8::1", "0.0.0.0", "nonsense", None]
LOCAL_HOSTS = ["localhost", "localhost:8787", "127.0.0.1:80", "[::1]:8787", "app.localhost"]
OTHER_HOSTS = ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[", "notlocalhost"]
FORWARDED = ["forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"]
FORWARDED += [f"x-forwarded{more}" for more in ("-for", "-host", "-proto", "-port", "-server", "-anything", "")]


def connection(client: str | None = "127.0.0.1", host: str = "localhost:8787", **headers: str) -> HTTPConnection:
    named = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HTTPConnection(
        {
            "type": "http",
            "client": None if client is None else (client, 5000),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }
    )


# -- strangers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", LOCAL_HOSTS)
@pytest.mark.parametrize("client", LOOPBACK)
def test_without_authorize_this_machine_is_let_in(client: str, host: str) -> None:
    assert AccessPolicy(Permissions(), ()).refuse_strangers(connection(client, host)) is None


@pytest.mark.parametrize(
    "stranger",
    [
        *(connection(client) for client in ELSEWHERE),
        *(connection(host=host) for host in OTHER_HOSTS),
        *(connection(**{name: "for=203.0.113.7"}) for name in FORWARDED),
    ],
)
def test_without_authorize_other_clients_are_refused_with_a_hint(stranger: HTTPConnection) -> None:
    refused = AccessPolicy(Permissions(), ()).refuse_strangers(stranger)
    assert refused is not None and refused.status == 403
    assert "To serve others" in refused.reason and "authorize=" in refused.reason


@pytest.mark.parametrize("stranger", [connection("203.0.113.7"), connection(host="a.example"), connection(via="x")])
def test_with_authorize_any_address_is_admitted(stranger: HTTPConnection) -> None:
    async def authorize(connecting: Connecting) -> Principal:
        return Principal("ann")

    assert AccessPolicy(Permissions(authorize=authorize), ()).refuse_strangers(stranger) is None


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"x-forwarded-for": "203.0.113.7"}, {"forwarded": "for=x"}]
)
async def test_a_stranger_reaches_no_agent_over_a_real_socket(headers: dict[str, str]) -> None:
    agent = scripted(["x"])
    async with talking(chat(agent), headers=headers) as client:
        for method, path in [("GET", "get-messages"), ("POST", "chat"), ("GET", "events"), ("GET", "../nope/x/y")]:
            answer = await client.request(method, path, json=question() if method == "POST" else None)
            assert answer.status_code == 403
            assert "unable to accept the request" in answer.text
    assert agent.turns == []  # type: ignore[attr-defined]


# -- authorize ----------------------------------------------------------------------------------------------------


async def test_authorize_is_asked_with_the_request_the_class_and_the_name() -> None:
    agent = scripted(["x"])
    asked: list[tuple[Any, ...]] = []

    async def authorize(connecting: Connecting) -> Principal:
        request = connecting.request
        asked.append((connecting.agent, connecting.name, request.url.path, request.headers["authorization"]))
        return Principal("ann")

    async with talking(chat(agent, authorize=authorize), headers={"authorization": "Bearer t"}) as client:
        await ask(client)
    assert asked == [(agent, "ann", "/agents/chat/ann/chat", "Bearer t")]


async def _nobody(connecting: Connecting) -> None:
    return None


async def _refusing(connecting: Connecting) -> Reject:
    return Reject("Your plan has ended.", 402)


async def _broken(connecting: Connecting) -> Principal:
    raise RuntimeError("the user database is down")


@pytest.mark.parametrize(
    ("authorize", "status", "sentence"),
    [(_nobody, 401, "does not know you"), (_refusing, 402, "Your plan has ended."), (_broken, 500, "could not check")],
)
async def test_a_client_without_an_explicit_permit_is_refused(authorize: Any, status: int, sentence: str) -> None:
    agent = scripted(["x"])
    app = chat(agent, authorize=authorize)
    async with talking(app) as client:
        for method, path in [
            ("GET", "get-messages"),
            ("POST", "chat"),
            ("GET", "chat/stream"),
            ("POST", "chat/stop"),
            ("GET", "events"),
            ("GET", "unknown"),
        ]:
            answer = await client.request(method, path, json=question() if method == "POST" else None)
            assert (answer.status_code, sentence in answer.text) == (status, True)
            assert "database" not in answer.text
        assert len((await app.start()).directory) == 0
    assert agent.turns == []  # type: ignore[attr-defined]


async def test_limits_are_counted_by_principal() -> None:
    async def authorize(connecting: Connecting) -> Principal:
        return Principal(connecting.request.headers["authorization"])

    from everyword.server import Limits

    app = chat(scripted(["x"]), authorize=authorize, limits=Limits(requests_per_minute=1))
    async with talking(app) as client:
        statuses = [
            (await client.post("chat", json=question(f"u{n}"), headers={"authorization": who})).status_code
            for n, who in enumerate(["ann", "ann", "bob"])
        ]
    assert statuses == [200, 429, 200]


# -- other sites' pages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origins", "origin", "is_let_in"),
    [
        ((), "http://localhost:8787", True),
        ((), "https://localhost:8787", True),
        ((), "http://localhost:3000", False),
        ((), "null", False),
        (["https://a.example"], "https://a.example", True),
        (["https://a.example/"], "https://A.example", True),
        (["https://a.example"], "http://a.example", False),
        (["https://a.example"], "https://a.example.evil.example", False),
        (["http://localhost:*"], "http://localhost:3000", True),
        (["http://localhost:*"], "http://localhost", True),
        (["http://localhost:*"], "http://localhost.evil.example:3000", False),
        (["http://localhost:*"], "http://evil.example:3000", False),
        ("https://a.example", "https://a.example", True),
        (["null"], "null", True),
        (["file://"], "file://", True),
        ((), "file://", False),
        (["http://localhost:*"], "http://[", False),
        (["http://localhost:*"], "http://localhost:99999999", False),
    ],
)
def test_pages_of_other_sites_are_let_in_when_they_are_invited(
    origins: Sequence[str], origin: str, is_let_in: bool
) -> None:
    door = AccessPolicy(Permissions(), origins)  # type: ignore[arg-type]
    refused = door.refuse_origin(connection(origin=origin))
    assert (refused is None) == is_let_in
    if refused is not None:
        assert "origins=" in refused.reason
        assert set(door.cors_headers(connection(origin=origin))) <= {"vary"}


def test_an_invited_page_is_told_that_it_may_read_the_answer() -> None:
    origin = "https://a.example"
    headers = AccessPolicy(Permissions(), [origin]).cors_headers(connection(origin=origin))
    assert headers["access-control-allow-origin"] == origin
    assert headers["access-control-allow-credentials"] == "true"
    assert headers["vary"] == "Origin"
    everybody = AccessPolicy(Permissions(authorize=_nobody), "*").cors_headers(connection(origin=origin))
    assert everybody["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in everybody
    assert AccessPolicy(Permissions(), []).cors_headers(connection()) == {}


@pytest.mark.parametrize("origins", [["https://a.example"], "*"])
def test_a_response_to_an_img_is_not_used_for_a_script_of_another_site(origins: Sequence[str]) -> None:
    door = AccessPolicy(Permissions(authorize=_nobody), origins)
    assert door.cors_headers(connection()) == {"vary": "Origin"}
    assert door.cors_headers(connection(origin="https://a.example"))["vary"] == "Origin"


async def test_an_invited_page_may_ask_and_read_and_an_uninvited_one_may_do_neither() -> None:
    agent = scripted(["x"])
    async with talking(chat(agent, origins=["https://a.example"])) as client:
        preflight = {"origin": "https://a.example", "access-control-request-headers": "idempotency-key"}
        answer = await client.options("chat", headers=preflight)
        assert answer.status_code == 204
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == "idempotency-key"
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        reader = await ask(client, origin="https://a.example")
        assert reader.response.headers["access-control-allow-origin"] == "https://a.example"
        assert "x-everyword-request" in reader.response.headers["access-control-expose-headers"]
        for method, path in [("OPTIONS", "chat"), ("POST", "chat"), ("GET", "get-messages")]:
            answer = await client.request(method, path, json=question("u2"), headers={"origin": "https://b.example"})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
    assert len(agent.turns) == 1  # type: ignore[attr-defined]


async def test_an_invited_page_can_read_why_it_was_refused() -> None:
    async with talking(chat(scripted(["x"]), origins="*", authorize=_nobody)) as client:
        answer = await client.get("get-messages", headers={"origin": "https://a.example"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, "*")


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/agents/chat/ann/get-messages", "", ResourceAddress("chat", "ann", "get-messages")),
        ("/agents/chat/ann/chat/stream/", "", ResourceAddress("chat", "ann", "chat/stream")),
        ("/agents/chat/ann", "", ResourceAddress("chat", "ann", "")),
        ("/agents/chat/a%2Fb/chat", "", ResourceAddress("chat", "a/b", "chat")),
        ("/agents/chat/a%252Fb/chat?x=/y", "", ResourceAddress("chat", "a%2Fb", "chat")),
        ("/mount/agents/chat/ann/chat", "/mount", ResourceAddress("chat", "ann", "chat")),
        ("//agents/chat/ann/get-messages", "", ResourceAddress("chat", "ann", "get-messages")),
        ("//mount/agents/chat/ann", "/mount", ResourceAddress("chat", "ann", "")),
        ("/agents/chat/ann//get-messages", "", ResourceAddress("chat", "ann", "get-messages")),
        ("/agents/chat/ann//sub/leaf/bob", "", ResourceAddress("chat", "ann", "", (("leaf", "bob"),))),
        ("/agents/chat/ann//", "", ResourceAddress("chat", "ann", "")),
        ("/m%C3%BCnt/agents/chat/ann/chat", "/münt", ResourceAddress("chat", "ann", "chat")),
        ("/agents/chat/ann/chat", "/mount", None),
        ("/agents//ann/chat", "", None),
        ("/agents/chat//chat", "", None),
        ("/agentsx/chat/ann", "", None),
        ("/", "", None),
        ("//", "", None),
    ],
)
def test_an_address_is_read_from_the_raw_path_below_the_mount(
    path: str, root: str, expected: ResourceAddress | None
) -> None:
    scope = {"raw_path": path.encode(), "path": "unused", "root_path": root}
    assert find_address(scope, "/agents") == expected


def test_an_address_is_read_from_the_path_where_there_is_no_raw_one() -> None:
    assert find_address({"path": "/a/b/chat/ann ä/events"}, "/a/b") == ResourceAddress("chat", "ann ä", "events")


async def test_a_stream_is_not_held_open_for_a_client_that_was_never_let_in() -> None:
    gate = Gate()

    async def authorize(connecting: Connecting) -> Principal | None:
        return Principal("ann") if connecting.name == "ann" else None

    async with talking(chat(scripted(["a", gate]), authorize=authorize)) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: '"a"' in event.data)
            answer = await client.get("../bob/chat/stream")
            assert answer.status_code == 401
            gate.open()
            await reader.rest()


# -- every site -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origins", ["*", ["*"], ["https://a.example", "*"]])
def test_every_site_is_let_in_only_where_authorize_decides(origins: Any) -> None:
    with pytest.raises(UsageError, match="without `authorize`"):
        Everyword([scripted(["x"])], store="memory:", origins=origins)
    with pytest.raises(UsageError, match="without `authorize`"):
        Everyword([scripted(["x"])], store="memory:").invite(*origins)
    door = AccessPolicy(Permissions(authorize=_nobody), origins)
    assert door.refuse_origin(connection(origin="https://anybody.example")) is None


CREDENTIALS = {"cookie": "session=secret", "authorization": "Basic c2VjcmV0"}


@pytest.mark.parametrize(
    ("origins", "origin", "is_stripped"),
    [
        ("*", "https://anybody.example", True),
        ("*", "null", True),
        ("*", "http://localhost:3000", True),
        ("*", "http://localhost:8787", False),
        ("*", None, False),
        (["*", "https://a.example"], "https://b.example", True),
        (["*", "https://a.example"], "https://a.example", False),
        (["https://a.example"], "https://a.example", False),
    ],
)
def test_a_page_that_only_the_star_lets_in_has_no_cookies(origins: Any, origin: str | None, is_stripped: bool) -> None:
    named = {**CREDENTIALS, **({"origin": origin} if origin is not None else {})}
    scope = {**connection(**named).scope, "session": {"user": "ann"}, "user": "ann", "auth": "all", "state": {}}
    cleaned = AccessPolicy(Permissions(authorize=_nobody), origins).without_credentials(scope)
    assert {"cookie", "authorization"} & set(HTTPConnection(cleaned).headers) == (
        set() if is_stripped else {*CREDENTIALS}
    )
    assert ({"session", "user", "auth"} & cleaned.keys() == set()) == is_stripped
    assert cleaned["state"] == {} and scope["session"] == {"user": "ann"}, "the server's own scope stays as it is"


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("Bearer token", True),
        ("bearer token", True),
        ("BEARER  token", True),
        ("Basic c2VjcmV0", False),
        ("Digest username=ann", False),
        ("Negotiate abc", False),
        ("Bearertoken", False),
        ("token", False),
        ("", False),
    ],
)
def test_of_authorization_only_bearer_tokens_are_kept_for_every_site(value: str, is_kept: bool) -> None:
    scope = connection(origin="https://anybody.example", authorization=value).scope
    cleaned = AccessPolicy(Permissions(authorize=_nobody), "*").without_credentials(scope)
    assert ("authorization" in HTTPConnection(cleaned).headers) == is_kept


async def test_no_code_sees_the_cookies_of_a_page_that_only_the_star_lets_in() -> None:
    """`authorize`, `on_request`, `on_connect`, the connection and the gate of sub-agents, over HTTP and sockets."""
    seen: list[tuple[str, bool]] = []

    def see(where: str, request: HTTPConnection) -> None:
        seen.append((where, bool(request.cookies) or "authorization" in request.headers or "cookie" in request.headers))

    async def authorize(connecting: Connecting) -> Principal:
        see("authorize", connecting.request)
        return Principal("ann")

    class Chat(AIChatAgent):
        async def on_request(self, request: Any) -> Any:
            see("on_request", request)
            return PlainTextResponse("seen")

        async def on_connect(self, connection: Any, request: Any) -> None:
            see("on_connect", request)
            see("connection", connection.request)
            connection.send({"type": "connected"})

        async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
            see("gate", request)
            return True

    app = chat(Chat, authorize=authorize, origins="*")
    for origin, is_seen in (("https://evil.example", False), (None, True)):
        seen.clear()
        headers = {**CREDENTIALS, **({"origin": origin} if origin is not None else {})}
        async with talking(app, headers=headers) as client:
            assert (await client.get("own")).text == "seen"
            assert (await client.get("sub/chat/x/own")).text == "seen"
            url = str(client.base_url).partition("/agents")[0]
            for name in ("ann", "ann/sub/chat/x"):
                async with socket(url, name=name, **headers) as tab:
                    await tab.until(lambda frame: frame["type"] == "connected")
        assert {where for where, _ in seen} == {"authorize", "on_request", "on_connect", "connection", "gate"}
        assert {found for _, found in seen} == {is_seen}


async def test_the_playground_shows_no_code_the_cookies_of_other_pages_either() -> None:
    seen: list[bool] = []

    async def authorize(connecting: Connecting) -> Principal:
        seen.append("cookie" in connecting.request.headers)
        return Principal("ann")

    app = PlaygroundFeed(chat(scripted(["x"]), authorize=authorize, origins="*"))
    async with serving(app) as url, connect(url, headers={"cookie": "session=secret"}) as client:
        for origin in ({"origin": "https://evil.example"}, {}):
            await client.get("/playground/log", params={"agent": "chat/ann"}, headers=origin)
    assert seen == [False, True]


# -- headers that cannot be parsed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("origins", [(), "*", ["http://localhost:*"]])
@pytest.mark.parametrize(
    "origin", ["http://[", "http://a:b", "http://localhost:99999999", "//", "x", "", "http://[::1"]
)
def test_an_origin_that_cannot_be_read_is_refused_with_400(origin: str, origins: Any) -> None:
    door = AccessPolicy(Permissions(authorize=_nobody), origins)
    refused = door.refuse_at_sight(connection(origin=origin))
    assert refused is not None and refused.status == 400
    assert door.without_credentials(connection(origin=origin, cookie="a=b").scope)["type"] == "http"


@pytest.mark.parametrize(
    "host", ["[", "a b", "a/b", "ann@a.example", "a:b", "a:999999", "x" * 10_000, "\x01", "a\\b", "#", ":80"]
)
async def test_a_host_that_cannot_be_read_is_refused_with_400(host: str) -> None:
    refused = AccessPolicy(Permissions(authorize=_nobody), ()).refuse_at_sight(connection(host=host))
    assert refused is not None and refused.status == 400
    assert AccessPolicy(Permissions(), ()).refuse_at_sight(connection(host=host)) is not None


@pytest.mark.parametrize("host", ["", "a.example", "a.example:8787", "[::1]:80", "[2001:db8::1]", "my_service:80", "a"])
def test_a_host_that_can_be_read_is_left_to_authorize(host: str) -> None:
    assert AccessPolicy(Permissions(authorize=_nobody), ()).refuse_at_sight(connection(host=host)) is None


def test_two_origins_are_the_origin_of_no_invited_page() -> None:
    scope = connection(origin="https://a.example").scope
    scope["headers"].append((b"origin", b"https://b.example"))
    refused = AccessPolicy(Permissions(authorize=_nobody), ["https://a.example", "https://b.example"]).refuse_at_sight(
        HTTPConnection(scope)
    )
    assert refused is not None and 400 <= refused.status < 500
