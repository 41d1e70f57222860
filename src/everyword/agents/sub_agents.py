"""Agents below agents: a child has a class, a name below its parent, and a log of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, overload
from weakref import WeakKeyDictionary

from ..errors import UsageError
from ..ids import SUB, AgentId, parent_id, split_agent_id
from ..runtime.agent_runtime import AgentRuntime
from .kinds import agent_kind, all_kinds

if TYPE_CHECKING:
    from .agent import Agent
    from .chat import AIChatAgent
    from .handles.chat_handle import ChatHandle
    from .handles.handle import Handle
    from .think.handle import ThinkHandle
    from .think.think import Think

__all__ = ["HasSubAgents", "SubAgentAddress", "SubAgents"]
__all__ += ["check_child", "child_classes", "class_of", "known_child", "remember_child"]

C = TypeVar("C", bound="Agent[Any]")
ChatT = TypeVar("ChatT", bound="AIChatAgent[Any]")
ThinkT = TypeVar("ThinkT", bound="Think[Any]")

_remembered: WeakKeyDictionary[type, dict[str, type[Agent]]] = WeakKeyDictionary()
"""Parent's class → kind → the class that its code asked for in this process."""


@dataclass(frozen=True, slots=True)
class SubAgentAddress:
    """A sub-agent as its parent knows it."""

    cls: type[Any]
    name: str

    @property
    def kind(self) -> str:
        """The path segment of its class."""
        return agent_kind(self.cls)


class _Parent(Protocol):
    @property
    def _runtime(self) -> AgentRuntime: ...


class SubAgents:
    """The agents below an agent, as `self.sub_agents`. They are named below it, and have logs of their own."""

    __slots__ = ("_agent",)

    def __init__(self, agent: _Parent) -> None:
        self._agent = agent

    async def exists(self, cls: type[Any], name: str) -> bool:
        """Tell whether there is a sub-agent of this class and name, without making one."""
        check_child(cls, name)
        remember_child(type(self._agent), cls)
        return await self._agent._runtime.sub_agents.find(agent_kind(cls), name) is not None

    async def list(self, cls: type[Any] | None = None) -> Sequence[SubAgentAddress]:
        """Return the sub-agents, those of one class if it is given, oldest first; not those below them.

        Ones whose class this process does not know are left out: list it in `sub_agent_classes`.
        """
        classes = dict.fromkeys(all_kinds(cls), cls) if cls is not None else None
        found = []
        for agent in await self._agent._runtime.sub_agents.all():
            if parent_id(agent) != self._agent._runtime.agent:
                continue
            kind, name = split_agent_id(agent)
            known = classes.get(kind) if classes is not None else known_child(type(self._agent), kind)
            if known is not None:
                found.append(SubAgentAddress(known, name))
        return found

    async def abort(self, cls: type[Any], name: str) -> None:
        """Stop every turn of a sub-agent, running or waiting; what was said is kept."""
        check_child(cls, name)
        remember_child(type(self._agent), cls)
        child = await self._agent._runtime.sub_agents.find(agent_kind(cls), name)
        if child is not None:
            await self._agent._runtime.of(child).cancel(None)

    async def delete(self, cls: type[Any], name: str) -> bool:
        """Destroy a sub-agent, all that it stored and all below it; False when there is none."""
        check_child(cls, name)
        remember_child(type(self._agent), cls)
        child = await self._agent._runtime.sub_agents.find(agent_kind(cls), name)
        if child is None:
            return False
        await self._agent._runtime.of(child).destroy()
        return True


class HasSubAgents:
    """What an agent can do with agents of its own.

    Clients reach them at `…/sub/{kind}/{name}` only, and only where `on_before_sub_agent` lets them.
    """

    _runtime: AgentRuntime

    sub_agent_classes: ClassVar[Sequence[type[Any]]] = ()
    """Classes of sub-agents that are known from the start; others are when they are first asked for."""

    @property
    def sub_agents(self) -> SubAgents:
        """The agents below this one: list, abort and delete them."""
        return SubAgents(self)

    async def on_before_sub_agent(self, request: Any, child: SubAgentAddress) -> Any:
        """Decide whether a client may use a sub-agent: True to let it, False to refuse, or a response of your own.

        `authorize` has let the client use this agent already. Called for every request and socket; nobody gets in
        unless this says so.
        """
        return False

    @overload
    async def sub_agent(self, cls: type[ThinkT], name: str) -> ThinkHandle[ThinkT]: ...
    @overload
    async def sub_agent(self, cls: type[ChatT], name: str) -> ChatHandle[ChatT]: ...
    @overload
    async def sub_agent(self, cls: type[C], name: str) -> Handle[C]: ...
    async def sub_agent(self, cls: type[Any], name: str) -> Any:
        """Return a handle to a sub-agent, which is made when there is none of that class and name.

        Raises:
            UsageError: the class or the name cannot be used.
        """
        from .handles.handle import make_handle

        check_child(cls, name)
        remember_child(type(self), cls)
        child = await self._runtime.sub_agents.make(agent_kind(cls), name)
        return make_handle(self._runtime.calls, child, cls)


# -- which class a path means ------------------------------------------------------------------------------------


def check_child(cls: type[Any], name: str) -> None:
    """Raise UsageError unless a sub-agent may have this class and name."""
    if agent_kind(cls) == SUB:
        raise UsageError(f"unable to use {cls.__name__} below another agent; its path would be /{SUB}/{SUB}. Rename it")
    if not name or "\0" in name:
        raise UsageError(f"unable to name a sub-agent {name!r}; give it a name without NUL characters")


def remember_child(parent: type, child: type[Agent]) -> None:
    """Note that agents of the first class have sub-agents of the second."""
    known = known_child(parent, agent_kind(child))
    if known is not child:
        _remembered.setdefault(parent, {})[agent_kind(child)] = child


def child_classes(parent: type[Any]) -> dict[str, type[Agent]]:
    """Return the classes of sub-agents by all their kinds: declared, of its agent tools, asked for so far."""
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

    None when the class is unknown.

    After a restart nobody may have asked for it yet: then a class of that kind counts if there is only one.
    """
    above, kind = parent_id(agent), split_agent_id(agent)[0]
    if above is None:
        return served.get(kind)
    parent = class_of(above, served)
    if parent is None:
        return None
    return known_child(parent, kind) or served.get(kind) or _only_class(kind)


def _tool_children(parent: type[Any]) -> Iterator[type[Agent]]:
    listed = vars(parent).get("tools", getattr(parent, "tools", ()))
    members = [value for base in parent.__mro__ for value in vars(base).values()]
    for each in [*members, *(listed if isinstance(listed, list | tuple) else ())]:
        child = getattr(each, "child_class", None) if not isinstance(each, type) else None
        if isinstance(child, type):
            yield child


def _only_class(kind: str) -> type[Agent] | None:
    from .agent import Agent

    known = [cls for cls in _subclasses(Agent) if kind in all_kinds(cls)]
    found = [cls for cls in known if agent_kind(cls) == kind] or known
    return found[0] if len(found) == 1 else None


def _subclasses(cls: type[Agent]) -> Iterator[type[Agent]]:
    for each in cls.__subclasses__():
        yield each
        yield from _subclasses(each)
