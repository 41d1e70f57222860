"""The playground as one ASGI app: the page, its data feed, and the agents."""

from __future__ import annotations

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..agents import AIChatAgent
from ..server import Everyword
from ..server.playground import FEED, PlaygroundFeed
from ..web import Page

__all__ = ["playground", "playground_beside"]


def playground(app: Everyword) -> ASGIApp:
    """Return an app with the playground in front of it. Not for production: it lists all conversations and shows logs.

    An agent class with `suggestions = [("a question", "what it shows"), ...]` has them on its empty page.
    """
    return _page(app, app.base_path, PlaygroundFeed(app))


def playground_beside(outer: ASGIApp, app: Everyword, base_path: str) -> ASGIApp:
    """Return an app that adds, at `/playground/`, the playground of an `Everyword` that is mounted in it.

    All other paths go to the outer app. `base_path` is the path of the agents.
    """
    page = _page(app, base_path, PlaygroundFeed(app), at=FEED)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == FEED:
            await RedirectResponse(f"{FEED}/")(scope, receive, send)
        elif path.startswith(f"{FEED}/"):
            await page(scope, receive, send)
        else:
            await outer(scope, receive, send)

    return serve


def _page(app: Everyword, base_path: str, feed: ASGIApp, at: str = "") -> Page:
    return Page(
        list(app.classes),
        base_path=base_path,
        behind=feed,
        feed=FEED,
        suggestions={kind: list(getattr(cls, "suggestions", ())) for kind, cls in app.classes.items()},
        wordless=[kind for kind, cls in app.classes.items() if not issubclass(cls, AIChatAgent)],
        at=at,
        lists=base_path.removesuffix(app.base_path),
        scope="all",
    )
