"""FastAPI users write authentication once: the dependency of their routes decides about agents, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from fastapi import Cookie, Depends, FastAPI, Header, HTTPException, Request
from fastapi.security import OAuth2PasswordBearer

from everyword import Principal
from everyword.errors import UsageError
from everyword.fastapi import authenticate_with
from tests.server.kit import chat, connect, scripted, serving
from tests.server.sockets import socket

USERS = {"t-ann": {"id": "ann", "name": "Ann", "active": True}, "t-eve": {"id": "eve", "name": "Eve", "active": False}}
scheme = OAuth2PasswordBearer(tokenUrl="token")
closed: list[str] = []


async def session() -> AsyncIterator[str]:
    yield "session"
    closed.append("session")


async def current_user(
    token: Annotated[str, Depends(scheme)], used: Annotated[str, Depends(session)], request: Request
) -> dict[str, Any]:
    assert used == "session" and request.method == "GET"
    user = USERS.get(token)
    if user is None:
        raise HTTPException(401, "your token is not one of ours")
    if not user["active"]:
        raise HTTPException(403, "your account is closed")
    return user


def to_principal(user: dict[str, Any]) -> Principal:
    return Principal(user["id"], name=user["name"])


def whoever(principal: Principal, action: str, kind: str, name: str) -> bool:
    return name == principal.id


def mounted(**options: Any) -> tuple[FastAPI, Any]:
    api = FastAPI()
    who = authenticate_with(current_user, to_principal, app=api, **options)
    agents = chat(scripted(lambda turn: [f"hello {turn.principal.name}"]), authenticate=who, authorize=whoever)
    api.router.lifespan_context = agents.lifespan

    @api.get("/me")
    async def me(user: Annotated[dict[str, Any], Depends(current_user)]) -> str:
        return str(user["id"])

    api.mount("/", agents)
    return api, agents


async def test_routes_and_agents_have_one_authentication() -> None:
    api, _ = mounted()
    closed.clear()
    async with serving(api) as url, connect(url) as http:
        for headers, route, agent in (
            ({}, 401, 401),
            ({"authorization": "Bearer nonsense"}, 401, 401),
            ({"authorization": "Bearer t-eve"}, 403, 403),
            ({"authorization": "Bearer t-ann"}, 200, 200),
        ):
            assert (await http.get("/me", headers=headers)).status_code == route
            answer = await http.get("/agents/chat/ann/get-messages", headers=headers)
            assert answer.status_code == agent, answer.text
        refused = await http.get("/agents/chat/ann/get-messages", headers={"authorization": "Bearer t-eve"})
        assert refused.text == "unable to accept the request; your account is closed\n"
        other = await http.get("/agents/chat/bob/get-messages", headers={"authorization": "Bearer t-ann"})
        assert other.status_code == 403
    assert closed, "what the dependency opened is closed"


async def test_a_socket_brings_its_token_in_the_query_only_where_that_is_said() -> None:
    for query_token, is_let_in in (("token", True), (None, False)):
        api, _ = mounted(query_token=query_token)
        async with serving(api) as url, socket(url, "?token=t-ann") as client:
            if is_let_in:
                await client.ask("r1")
                await client.ended("r1")
                assert "hello Ann" in "".join(frame.get("body", "") for frame in client.frames)
            else:
                assert (await client.closed())[0] == 1008


async def test_a_header_counts_before_the_query() -> None:
    api, _ = mounted(query_token="token")
    async with serving(api) as url, connect(url) as http:
        asked = await http.get(
            "/agents/chat/ann/get-messages?token=t-ann", headers={"authorization": "Bearer nonsense"}
        )
        assert asked.status_code == 401


async def test_overrides_of_the_app_count() -> None:
    api, _ = mounted()
    api.dependency_overrides[current_user] = lambda: USERS["t-ann"]
    async with serving(api) as url, connect(url) as http:
        assert (await http.get("/agents/chat/ann/get-messages")).status_code == 200


async def test_cookies_headers_and_async_makers_work_and_a_missing_header_refuses() -> None:
    async def known(x_key: Annotated[str, Header()], crumb: Annotated[str, Cookie()]) -> str:
        return f"{x_key}{crumb}"

    async def made(name: str) -> Principal | None:
        return Principal(name) if name == "ann" else None

    agents = chat(scripted(["hello"]), authenticate=authenticate_with(known, made), authorize=whoever)
    async with serving(agents) as url, connect(f"{url}/agents/chat/ann") as http:
        assert (await http.get("get-messages", headers={"x-key": "an", "cookie": "crumb=n"})).status_code == 200
        assert (await http.get("get-messages", headers={"x-key": "bo", "cookie": "crumb=b"})).status_code == 401
        missing = await http.get("get-messages")
        assert missing.status_code == 422 and "x-key" not in missing.text


async def test_a_dependency_that_fails_refuses_and_tells_only_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise RuntimeError("the database is at 10.0.0.1")

    agents = chat(scripted(["hello"]), authenticate=authenticate_with(broken, to_principal), authorize=whoever)
    async with serving(agents) as url, connect(f"{url}/agents/chat/ann") as http:
        answer = await http.get("get-messages")
    assert answer.status_code == 500 and "10.0.0.1" not in answer.text
    assert "10.0.0.1" in caplog.text


def test_something_else_than_a_function_is_refused() -> None:
    with pytest.raises(UsageError, match="pass the function"):
        authenticate_with("current_user", to_principal)  # type: ignore[arg-type]
