"""Finds agent classes whose turns would fail: no model, or no package or key for it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import UsageError
from .agent_tools.definition import AgentTool
from .think.model import inferred_model
from .think.think import Think

__all__ = ["named_models", "setup_problems"]


def named_models(classes: Iterable[type[Any]]) -> dict[type[Think], str | None]:
    """Return the classes that name their model, or should, with that name; helpers that are their tools included.

    One that chooses its model in code, or answers by itself, is left out.
    """
    return {cls: inspect.getattr_static(cls, "model") for cls in _and_tools_of(classes) if _names_its_model(cls)}


def setup_problems(classes: Iterable[type[Any]]) -> list[tuple[type[Think], str]]:
    """Return the classes whose turns would fail, each with what to do: no model, no package or no key for it.

    Imports the packages of providers, which takes a second: not for an event loop.
    """
    found = [(cls, _problem(cls, model)) for cls, model in named_models(classes).items()]
    return [(cls, why) for cls, why in found if why is not None]


def _and_tools_of(classes: Iterable[type[Any]]) -> Iterator[type[Any]]:
    known: set[type[Any]] = set()
    waiting = list(classes)
    while waiting:
        cls = waiting.pop(0)
        if cls in known:
            continue
        known.add(cls)
        yield cls
        listed = inspect.getattr_static(cls, "tools", ())
        if isinstance(listed, list | tuple):
            waiting += [each.child_class for each in listed if isinstance(each, AgentTool)]


def _names_its_model(cls: type[Any]) -> bool:
    if not issubclass(cls, Think) or cls.get_model is not Think.get_model:
        return False
    model = inspect.getattr_static(cls, "model")
    return cls.on_chat_message is Think.on_chat_message and (model is None or isinstance(model, str))


def _problem(cls: type[Think], model: str | None) -> str | None:
    if model is None:
        return f"set `model` on {cls.__name__}, e.g. model = 'openai:gpt-5.2'"
    try:
        inferred_model(model)
    except UsageError as exc:
        return str(exc)
    return None
