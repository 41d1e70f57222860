"""Serves the playground's page: the files beside this module, and its settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Page"]

FOLDER = Path(__file__).parent / "files"

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Page:
    """An ASGI application that serves the page at its root, and passes other requests to the application behind it.

    Without an application behind it, mount it: `Mount("/chat", Page(kinds=["chat"]))`.

    Args:
        kinds: Kinds of agents to talk to; the first is shown at the start.
        base_path: Path of the agents.
        behind: Application that answers all other requests.
        feed: Path of the list of conversations and the logs, for development; without it the page shows neither.
        suggestions: Suggested questions by kind: (question, what it shows).
        wordless: Kinds without a conversation, which have only state and methods.
        lists: Path of the app that has `/conversations` and `/approvals`, without a slash at the end: an empty text for
            the root. Without it, the page does not list conversations.
        scope: Which conversations are listed: `mine`, or `all` that `authorize` allows.
        at: Path of the page, if it is not the root, without a slash at the end.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        *,
        base_path: str = "/agents",
        behind: ASGIApp | None = None,
        feed: str | None = None,
        suggestions: Mapping[str, Sequence[tuple[str, str]]] | None = None,
        wordless: Sequence[str] = (),
        at: str = "",
        lists: str | None = None,
        scope: Literal["mine", "all"] = "mine",
    ) -> None:
        self._behind, self._at = behind, at
        settings = {
            "kinds": list(kinds),
            "basePath": base_path,
            "feed": feed,
            "suggestions": dict(suggestions or {}),
            "wordless": list(wordless),
            "lists": lists,
            "scope": scope,
        }
        self._files = {"/settings.json": (json.dumps(settings).encode(), "application/json")}
        for path in FOLDER.iterdir():
            self._files[f"/{path.name}"] = (path.read_bytes(), TYPES[path.suffix])
        self._files["/"] = self._files.pop("/index.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Be an ASGI application."""
        if scope["type"] == "http":
            path = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix(self._at) or "/"
            if path in self._files:
                await self._serve(Request(scope), *self._files[path])(scope, receive, send)
                return
        if self._behind is not None:
            await self._behind(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse("unable to find this page\n", 404)(scope, receive, send)

    def _serve(self, request: Request, body: bytes, media_type: str) -> Response:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("unable to do that; this is a page\n", 405, {"allow": "GET, HEAD"})
        tag = f'"{hashlib.blake2b(body, digest_size=8).hexdigest()}"'
        headers = {**HEADERS, "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers={**headers, "content-type": media_type})
