"""The playground: the page, what it reads, and the agents behind it, as one application."""

from __future__ import annotations

from starlette.types import ASGIApp

from ..agents import AIChatAgent
from ..server import Everyword
from ..server.playground import FEED, PlaygroundFeed
from ..web import Page

__all__ = ["playground"]


def playground(app: Everyword) -> ASGIApp:
    """Return an app with the playground in front of it. Never for production: it lists conversations and shows logs.

    An agent class with `suggestions = [("a question", "what it shows"), ...]` has them on its empty page.
    """
    return Page(
        list(app.agents),
        base_path=app.base_path,
        behind=PlaygroundFeed(app),
        feed=FEED,
        suggestions={kind: list(getattr(cls, "suggestions", ())) for kind, cls in app.agents.items()},
        wordless=[kind for kind, cls in app.agents.items() if not issubclass(cls, AIChatAgent)],
    )
