"""Authentication of a FastAPI application, used for agents as well: the dependency that its routes have."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope

from .errors import UsageError
from .principals import Principal
from .server.permissions import Authenticate, Reject

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["authenticate_with"]

_FOUND: Final = "everyword.found"
"""Where the dependency's result is left in the scope of its request."""


def authenticate_with(
    dependency: Callable[..., Any],
    to_principal: Callable[[Any], Principal | Awaitable[Principal | None] | None],
    *,
    app: FastAPI | None = None,
    query_token: str | None = None,
) -> Authenticate:
    """Return an `authenticate` that asks a FastAPI dependency who a client is.

    The dependency may have dependencies of its own, `yield`, and raise HTTPException, which refuses the client with
    that status and text. It sees every request and every socket as a GET request: headers, cookies and query are there,
    path parameters and a body are not.

    Args:
        dependency: What routes write as `Depends(current_user)`.
        to_principal: Makes a Principal of what the dependency returns; None refuses the client.
        app: The application whose `dependency_overrides` and `state` count here, too.
        query_token: A field of the query that is taken for a bearer token where there is no `Authorization` header:
            browsers cannot set headers on a socket.
    """
    asking = _asking(dependency, app)

    async def authenticate(connection: HTTPConnection) -> Principal | Reject | None:
        scope = _as_request(connection, query_token)
        refused = await _ask(asking, scope)
        if refused is not None:
            return refused
        given = to_principal(scope[_FOUND])
        return await given if inspect.isawaitable(given) else given

    return authenticate


def _asking(dependency: Callable[..., Any], app: FastAPI | None) -> FastAPI:
    """Return an application that does nothing but resolve the dependency: FastAPI has no other public way to."""
    import fastapi

    if not callable(dependency):
        raise UsageError(f"unable to authenticate with {dependency!r}; give the function that routes depend on")
    asking: FastAPI = fastapi.FastAPI(openapi_url=None)
    if app is not None:
        asking.dependency_overrides, asking.state = app.dependency_overrides, app.state

    async def found(request: Any, user: Any) -> Any:
        request.scope[_FOUND] = user
        return fastapi.Response(status_code=204)

    found.__annotations__ = {"request": fastapi.Request, "user": Annotated[Any, fastapi.Depends(dependency)]}
    asking.add_api_route("/", found, methods=["GET"], response_model=None)
    return asking


def _as_request(connection: HTTPConnection, query_token: str | None) -> Scope:
    headers = list(connection.scope["headers"])
    token = connection.query_params.get(query_token) if query_token is not None else None
    if token is not None and "authorization" not in connection.headers:
        headers.append((b"authorization", f"Bearer {token}".encode("latin-1", "replace")))
    request = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "root_path": "", "headers": headers}
    kept = {name: value for name, value in connection.scope.items() if name not in ("app", "router", "path_params")}
    return {"http_version": "1.1", "scheme": "http", **kept, **request}


async def _ask(asking: FastAPI, scope: Scope) -> Reject | None:
    """Resolve the dependency for a request; return why it refused, if it did."""
    status, body = 500, b""

    async def send(message: Message) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body += message.get("body", b"")

    await asking(scope, _nothing(), send)
    if status < 400:
        return None
    return Reject(_detail(body) or f"unable to let you in; the sign-in was refused ({status})", status)


def _nothing() -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


def _detail(body: bytes) -> str | None:
    """Return the text of an HTTPException, as FastAPI writes it."""
    try:
        said = json.loads(body)
    except ValueError:
        return None
    detail = said.get("detail") if isinstance(said, dict) else None
    return f"unable to let you in; {detail}" if isinstance(detail, str) else None
