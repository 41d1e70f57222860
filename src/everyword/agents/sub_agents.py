"""Sub-agents: agents below an agent, each with a class, a name below its parent, and its own log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, overload

from ..ids import parent_id, split_agent_id
from ..runtime.agent_runtime import AgentRuntime
from .handles.handle import Handle, make_handle
from .kinds import agent_kind, all_kinds
from .sub_agent_classes import SubAgentAddress, check_child, known_child, remember_child

if TYPE_CHECKING:
    from .agent import Agent
    from .chat import AIChatAgent
    from .handles.chat_handle import ChatHandle
    from .think.handle import ThinkHandle
    from .think.think import Think

__all__ = ["HasSubAgents", "SubAgents"]

C = TypeVar("C", bound="Agent[Any]")
ChatT = TypeVar("ChatT", bound="AIChatAgent[Any]")
ThinkT = TypeVar("ThinkT", bound="Think[Any]")


class _Parent(Protocol):
    @property
    def _runtime(self) -> AgentRuntime: ...


class SubAgents:
    """The agents below an agent, as `self.sub_agents`."""

    __slots__ = ("_agent",)

    def __init__(self, agent: _Parent) -> None:
        self._agent = agent

    async def exists(self, cls: type[Any], name: str) -> bool:
        """Tell whether there is a sub-agent of this class and name; does not create one."""
        check_child(cls, name)
        remember_child(type(self._agent), cls)
        return await self._agent._runtime.sub_agents.find(agent_kind(cls), name) is not None

    async def list(self, cls: type[Any] | None = None) -> Sequence[SubAgentAddress]:
        """Return the sub-agents, those of one class if it is given, oldest first; not those below them.

        Sub-agents whose class this process does not know are left out: list the class in `sub_agent_classes`.
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
        """Stop every turn of a sub-agent, running or waiting; its messages are kept."""
        check_child(cls, name)
        remember_child(type(self._agent), cls)
        child = await self._agent._runtime.sub_agents.find(agent_kind(cls), name)
        if child is not None:
            await self._agent._runtime.of(child).cancel(None)

    async def delete(self, cls: type[Any], name: str) -> bool:
        """Destroy a sub-agent, all that it stored and every agent below it; False if there is none."""
        check_child(cls, name)
        remember_child(type(self._agent), cls)
        child = await self._agent._runtime.sub_agents.find(agent_kind(cls), name)
        if child is None:
            return False
        await self._agent._runtime.of(child).destroy()
        return True


class HasSubAgents:
    """The sub-agents of an agent.

    Clients reach them only at `…/sub/{kind}/{name}`, and only if `on_before_sub_agent` allows it.
    """

    _runtime: AgentRuntime

    sub_agent_classes: ClassVar[Sequence[type[Any]]] = ()
    """Classes of sub-agents that are known from the start; others become known when they are first used."""

    @property
    def sub_agents(self) -> SubAgents:
        """The agents below this one: list, abort and delete them."""
        return SubAgents(self)

    async def on_before_sub_agent(self, request: Any, child: SubAgentAddress) -> Any:
        """Decide whether a client may use a sub-agent: return True to allow it, False to refuse, or your own response.

        Called for every request and socket, after `authorize` has allowed the client to use this agent. By default,
        every client is refused.
        """
        return False

    @overload
    async def sub_agent(self, cls: type[ThinkT], name: str) -> ThinkHandle[ThinkT]: ...
    @overload
    async def sub_agent(self, cls: type[ChatT], name: str) -> ChatHandle[ChatT]: ...
    @overload
    async def sub_agent(self, cls: type[C], name: str) -> Handle[C]: ...
    async def sub_agent(self, cls: type[Any], name: str) -> Any:
        """Return a handle to a sub-agent, which is created if there is none of that class and name.

        Raises:
            UsageError: the class or the name cannot be used.
        """
        check_child(cls, name)
        remember_child(type(self), cls)
        child = await self._runtime.sub_agents.make(agent_kind(cls), name)
        return make_handle(self._runtime.calls, child, cls)
