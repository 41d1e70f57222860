"""Kinds of agents: the path segment of a class, by the rule that the stock client applies to its `agent` option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakSet

from ..errors import UsageError
from ..ids import SUB

__all__ = ["agent_kind", "all_kinds", "class_of_kind", "declared_kinds", "kebab", "register_class"]

_classes: WeakSet[type[Any]] = WeakSet()
"""The subclasses of Agent that this process has defined."""


@cache
def kebab(name: str) -> str:
    """Return the path segment of a class name: `ChatAgent` → `chat-agent`, `MyAIAgent` → `my-a-i-agent`."""
    if name.upper() == name and name.lower() != name:
        return name.lower().replace("_", "-")
    dashed = re.sub(r"[A-Z]", lambda letter: f"-{letter.group().lower()}", name).removeprefix("-")
    return dashed.replace("_", "-").removesuffix("-")


def agent_kind(cls: type) -> str:
    """Return the kind of agents of this class, the first half of their ids: declared, or made of its name."""
    return vars(cls).get("_declared_kind") or kebab(cls.__name__)


def all_kinds(cls: type) -> tuple[str, ...]:
    """Return the present kind of a class, and those that it had before."""
    return agent_kind(cls), *vars(cls).get("aliases", ())


def declared_kinds(cls: type) -> tuple[str | None, tuple[str, ...]]:
    """Return the kind and the aliases that a class declares itself: neither is inherited, since ids must not be shared.

    None for a class whose kind is made of its name.

    Raises:
        UsageError: one of them is no path segment that clients can name.
    """
    kind = _checked(cls, "kind", vars(cls)["kind"]) if vars(cls).get("kind") is not None else None
    former: Any = vars(cls).get("aliases", ())
    if isinstance(former, str) or not isinstance(former, Sequence):
        raise UsageError(f"unable to make {cls.__name__}; `aliases` must be a list of kinds, not {former!r}")
    aliases = dict.fromkeys(_checked(cls, "aliases", each) for each in former)
    aliases.pop(kind or kebab(cls.__name__), None)
    return kind, tuple(aliases)


def _checked(cls: type, member: str, kind: Any) -> str:
    # The stock client changes capitals and underscores, so that it would ask for another kind.
    if isinstance(kind, str) and re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", kind) and kind != SUB:
        return kind
    raise UsageError(
        f"unable to make {cls.__name__}; {member} has {kind!r}. Use lower-case letters, digits and dashes, as in"
        f" 'support-chat'; {SUB!r} leads to sub-agents"
    )


def register_class(cls: type[Any]) -> None:
    """Record a subclass of Agent, so that `class_of_kind` finds it."""
    _classes.add(cls)


def class_of_kind(kind: str) -> type[Any] | None:
    """Return the class of a kind; None if this process has defined none of that kind, or several."""
    known = [cls for cls in _classes if kind in all_kinds(cls)]
    found = [cls for cls in known if agent_kind(cls) == kind] or known
    return found[0] if len(found) == 1 else None
