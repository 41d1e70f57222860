"""Finds `Everyword` apps inside FastAPI and Starlette apps, routers and middleware."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..server import Everyword

__all__ = ["mounted_in"]


def mounted_in(app: Any) -> list[tuple[str, Everyword]]:
    """Return the `Everyword` apps in an app, each with the path it is mounted at; the app itself has the empty path.

    An app behind a path with parameters is left out: its agents have no fixed address.
    """
    found: dict[Everyword, str] = {}
    for path, inner in _walk(app, "", frozenset()):
        found.setdefault(inner, path)
    return [(path, inner) for inner, path in found.items()]


def _walk(app: Any, path: str, around: frozenset[int]) -> Iterator[tuple[str, Everyword]]:
    if isinstance(app, Everyword):
        yield path, app
    if isinstance(app, Everyword) or app is None or id(app) in around:
        return
    around |= {id(app)}
    routes = getattr(app, "routes", None)
    if not isinstance(routes, list):  # middleware: `app` is the next application
        yield from _walk(getattr(app, "app", None), path, around)
        return
    for route in routes:
        # A plain route has an endpoint; a mount, or a host, has an app.
        place = getattr(route, "path", "")
        if hasattr(route, "app") and not hasattr(route, "endpoint") and "{" not in place:
            yield from _walk(route.app, f"{path}{place.rstrip('/')}", around)
