"""Authenticate clients of agents with a dependency of a FastAPI application."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.requests import HTTPConnection
from starlette.types import Message, Scope

from .errors import UsageError
from .principals import Principal
from .server.permissions import Authenticate, Reject

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["authenticate_with"]

_RESULT: Final = "everyword.found"
"""The key of the request's scope under which the dependency's result is stored."""


def authenticate_with(
    dependency: Callable[..., Any],
    to_principal: Callable[[Any], Principal | Awaitable[Principal | None] | None],
    *,
    app: FastAPI | None = None,
    query_token: str | None = None,
) -> Authenticate:
    """Return an `authenticate` hook that identifies clients with a FastAPI dependency.

    The dependency may have dependencies of its own, `yield`, and raise HTTPException, which refuses the client with
    that status and text. It sees every request and every socket as a GET request with headers, cookies and query, but
    without path parameters and body.

    Args:
        dependency: The function that routes use as `Depends(current_user)`.
        to_principal: Converts the dependency's result to a Principal; None refuses the client.
        app: The application whose `dependency_overrides` and `state` are used here, too.
        query_token: A query parameter that is used as a bearer token if there is no `Authorization` header, because
            browsers cannot set headers on a socket.
    """
    resolver = _resolver(dependency, app)

    async def authenticate(connection: HTTPConnection) -> Principal | Reject | None:
        scope = _as_request(connection, query_token)
        refused = await _resolve(resolver, scope)
        if refused is not None:
            return refused
        principal = to_principal(scope[_RESULT])
        return await principal if inspect.isawaitable(principal) else principal

    return authenticate


def _resolver(dependency: Callable[..., Any], app: FastAPI | None) -> FastAPI:
    """Return an application that only resolves the dependency: FastAPI has no other public API for it."""
    import fastapi

    if not callable(dependency):
        raise UsageError(f"unable to authenticate with {dependency!r}; pass the function that routes depend on")
    resolver: FastAPI = fastapi.FastAPI(openapi_url=None)
    if app is not None:
        resolver.dependency_overrides, resolver.state = app.dependency_overrides, app.state

    async def store_result(request: Any, user: Any) -> Any:
        request.scope[_RESULT] = user
        return fastapi.Response(status_code=204)

    store_result.__annotations__ = {"request": fastapi.Request, "user": Annotated[Any, fastapi.Depends(dependency)]}
    resolver.add_api_route("/", store_result, methods=["GET"], response_model=None)
    return resolver


def _as_request(connection: HTTPConnection, query_token: str | None) -> Scope:
    headers = list(connection.scope["headers"])
    token = connection.query_params.get(query_token) if query_token is not None else None
    if token is not None and "authorization" not in connection.headers:
        headers.append((b"authorization", f"Bearer {token}".encode("latin-1", "replace")))
    request = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "root_path": "", "headers": headers}
    kept = {name: value for name, value in connection.scope.items() if name not in ("app", "router", "path_params")}
    return {"http_version": "1.1", "scheme": "http", **kept, **request}


async def _resolve(resolver: FastAPI, scope: Scope) -> Reject | None:
    """Resolve the dependency for a request. Return the refusal, or None if there was none."""
    status, body = 500, b""

    async def send(message: Message) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body += message.get("body", b"")

    await resolver(scope, _receive_empty_body, send)
    if status < 400:
        return None
    return Reject(_detail(body) or f"unable to accept the request; the sign-in was refused ({status})", status)


async def _receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _detail(body: bytes) -> str | None:
    """Return the text of an HTTPException from FastAPI's response body."""
    try:
        content = json.loads(body)
    except ValueError:
        return None
    detail = content.get("detail") if isinstance(content, dict) else None
    return f"unable to accept the request; {detail}" if isinstance(detail, str) else None
