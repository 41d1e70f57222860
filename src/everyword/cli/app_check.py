"""Checks that an app can be imported and that its agents are able to answer."""

from __future__ import annotations

from ..agents.setup_problems import setup_problems
from ..errors import BrokenApp
from ..server import Everyword
from .app_import import load_app
from .mounted_apps import mounted_in

__all__ = ["check_setup"]


def check_setup(named: str) -> tuple[list[str], list[Everyword]]:
    """Import an app; return its problems, one sentence each, and the `Everyword` apps in it.

    Raises:
        UsageError: there is no such app.
    """
    try:
        inside = mounted_in(load_app(named))
    except BrokenApp as exc:
        return [f"cannot be imported ({str(exc).splitlines()[-1]}); run `everyword serve {named}` for the place"], []
    classes = [cls for _, app in inside for cls in app.classes.values()]
    return [f"{cls.__name__} cannot answer: {why}" for cls, why in setup_problems(classes)], [app for _, app in inside]
