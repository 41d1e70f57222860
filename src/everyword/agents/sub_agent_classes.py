"""The classes of sub-agents: which class a kind below a parent means, and which classes and names are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..errors import UsageError
from ..ids import SUB, AgentId, parent_id, split_agent_id
from .kinds import agent_kind, all_kinds, class_of_kind

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["SubAgentAddress", "check_child", "child_classes", "class_of", "known_child", "remember_child"]

_remembered: WeakKeyDictionary[type, dict[str, type[Agent]]] = WeakKeyDictionary()
"""Parent's class → kind → the class that its code has used in this process."""


@dataclass(frozen=True, slots=True)
class SubAgentAddress:
    """The class and the name of a sub-agent."""

    cls: type[Any]
    name: str

    @property
    def kind(self) -> str:
        """The path segment of its class."""
        return agent_kind(self.cls)


def check_child(cls: type[Any], name: str) -> None:
    """Raise UsageError unless a sub-agent may have this class and name."""
    if agent_kind(cls) == SUB:
        raise UsageError(f"unable to use {cls.__name__} below another agent; its path would be /{SUB}/{SUB}. Rename it")
    if not name or "\0" in name:
        raise UsageError(f"unable to name a sub-agent {name!r}; give it a name without NUL characters")


def remember_child(parent: type, child: type[Agent]) -> None:
    """Record that agents of the first class have sub-agents of the second."""
    known = known_child(parent, agent_kind(child))
    if known is not child:
        _remembered.setdefault(parent, {})[agent_kind(child)] = child


def child_classes(parent: type[Any]) -> dict[str, type[Agent]]:
    """Return kind → class of the sub-agents: those declared, those of agent tools, and those used so far."""
    known: dict[str, type[Agent]] = {agent_kind(cls): cls for cls in _tool_children(parent)}
    known |= {agent_kind(cls): cls for cls in parent.sub_agent_classes}
    for base in reversed(parent.__mro__):
        known |= _remembered.get(base, {})
    return {**{former: cls for cls in known.values() for former in all_kinds(cls)}, **known}


def known_child(parent: type[Any], kind: str) -> type[Agent] | None:
    """Return the class of a parent's sub-agents of this kind, if it is known."""
    return child_classes(parent).get(kind)


def class_of(agent: AgentId, served: Mapping[str, type[Agent]]) -> type[Agent] | None:
    """Return the class of an agent wherever it stands: `served` are those at the root, by all their kinds.

    None if the class is unknown. After a restart the parent may not have used the class yet: then a class of that kind
    counts if there is only one.
    """
    above, kind = parent_id(agent), split_agent_id(agent)[0]
    if above is None:
        return served.get(kind)
    parent = class_of(above, served)
    if parent is None:
        return None
    return known_child(parent, kind) or served.get(kind) or class_of_kind(kind)


def _tool_children(parent: type[Any]) -> Iterator[type[Agent]]:
    listed = vars(parent).get("tools", getattr(parent, "tools", ()))
    members = [value for base in parent.__mro__ for value in vars(base).values()]
    for each in [*members, *(listed if isinstance(listed, list | tuple) else ())]:
        child = getattr(each, "child_class", None) if not isinstance(each, type) else None
        if isinstance(child, type):
            yield child
