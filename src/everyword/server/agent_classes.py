"""The classes that an app serves, checked and indexed by kind."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from ..agents import Agent, agent_kind
from ..errors import UsageError
from ..ids import SUB

__all__ = ["index_by_all_kinds", "index_by_kind"]


def index_by_kind(agents: Any) -> dict[str, type[Agent]]:
    """Return the classes by kind.

    Raises:
        UsageError: an entry is not an agent class, or two classes have the same kind.
    """
    if isinstance(agents, type):
        raise UsageError(f"unable to serve {agents.__name__}; give a list of classes: Everyword([{agents.__name__}])")
    if isinstance(agents, str) or not isinstance(agents, Iterable):
        raise UsageError(f"unable to serve {agents!r}; give a list of agent classes: Everyword([Chat])")
    found: dict[str, type[Agent]] = {}
    for cls in agents:
        _check_class(cls)
        kind = agent_kind(cls)
        if kind == SUB:
            raise UsageError(f"unable to serve {cls.__name__}; /{SUB}/ in a path leads to sub-agents. Rename it.")
        if kind in found:
            names = f"{found[kind].__name__} and {cls.__name__}"
            raise UsageError(f"unable to serve {names}; both are of kind {kind!r}. Rename one of the classes.")
        found[kind] = cls
    return found


def index_by_all_kinds(agents: Mapping[str, type[Agent]]) -> dict[str, type[Agent]]:
    """Return the classes by their present kinds and by their former ones (`aliases`)."""
    found = dict(agents)
    for cls in agents.values():
        for former in cls.aliases:
            if former in found:
                raise UsageError(
                    f"unable to serve {cls.__name__}; its alias {former!r} is a kind of {found[former].__name__}"
                )
            found[former] = cls
    return found


def _check_class(given: object) -> None:
    if not isinstance(given, type):
        name = type(given).__name__
        cure = f"Give the class itself: {name}" if isinstance(given, Agent) else "Give classes: Everyword([Chat])"
        shown = object.__repr__(given) if isinstance(given, Agent) else reprlib.repr(given)
        raise UsageError(f"unable to serve {shown}; it is {name}, not an agent class. {cure}")
    if not issubclass(given, Agent):
        raise UsageError(f"unable to serve {given.__name__}; it is no subclass of Agent, AIChatAgent or Think")
