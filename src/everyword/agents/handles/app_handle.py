"""AppHandle: the agents of an app. `Everyword` and `self.app` of an agent offer it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from ...errors import UsageError
from ...ids import AgentId, agent_id, can_name_a_root, split_agent_id
from ...principals import Principal
from ...runtime.api import JobCall
from ...runtime.api.erasures import ErasesPrincipals
from ...runtime.method_calls import MethodCalls
from ..kinds import agent_kind, all_kinds
from ..sub_agent_classes import class_of
from .approvals import Approvals
from .conversations import Conversations
from .handle import Handle, make_handle
from .principals import Principals
from .shares import Shares

if TYPE_CHECKING:
    from ..agent import Agent
    from ..chat import AIChatAgent
    from ..think.handle import ThinkHandle
    from ..think.think import Think
    from .chat_handle import ChatHandle

__all__ = ["AppHandle"]

A = TypeVar("A", bound="Agent[Any]")
ChatT = TypeVar("ChatT", bound="AIChatAgent[Any]")
ThinkT = TypeVar("ThinkT", bound="Think[Any]")

PAGE: Final = 500
"""How many agents are asked of the store at once."""


class AppHandle:
    """The agents that an app serves."""

    classes: dict[str, type[Agent]]
    """The classes that are served, by their kinds."""

    _served: dict[str, type[Agent]]
    """The same, also by the kinds that they had before."""

    @property
    def _calls(self) -> MethodCalls:
        """Carries calls to the agents."""
        raise NotImplementedError

    async def _note_act(self, action: str, kind: str = "", name: str = "", **what: object) -> None:
        """Tell observers that the app's own code does something that the audit trail should have."""
        raise NotImplementedError

    @property
    def _erasures(self) -> ErasesPrincipals:
        """Erases principals."""
        raise NotImplementedError

    async def _run_own_job(self, agent: Agent[Any], call: JobCall) -> None:
        """Run a job of the framework's own, such as asking for a title."""
        raise NotImplementedError

    @overload
    def get(self, cls: type[ThinkT], name: str) -> ThinkHandle[ThinkT]: ...
    @overload
    def get(self, cls: type[ChatT], name: str) -> ChatHandle[ChatT]: ...
    @overload
    def get(self, cls: type[A], name: str) -> Handle[A]: ...
    def get(self, cls: type[Any], name: str) -> Any:
        """Return a handle to one agent, for code outside of it: `await app.get(Chat, "ann").save_messages("hi")`.

        This is cheap and loads nothing. The handle's calls run in the loaded agent; the app must be running then.

        Raises:
            UsageError: the app does not serve the class, or no agent can have the name.
        """
        kind = agent_kind(cls)
        if self.classes.get(kind) is not cls:
            raise UsageError(f"unable to get {cls.__name__}; this app does not serve it. Add it to Everyword([...]).")
        return make_handle(self._calls, _root(kind, name), cls)

    @overload
    def agents(self, kind: type[ThinkT], *, prefix: str = "") -> AsyncIterator[ThinkHandle[ThinkT]]: ...
    @overload
    def agents(self, kind: type[ChatT], *, prefix: str = "") -> AsyncIterator[ChatHandle[ChatT]]: ...
    @overload
    def agents(self, kind: type[A], *, prefix: str = "") -> AsyncIterator[Handle[A]]: ...
    @overload
    def agents(self, kind: str | None = None, *, prefix: str = "") -> AsyncIterator[Handle[Any]]: ...
    def agents(self, kind: Any = None, *, prefix: str = "") -> AsyncIterator[Any]:
        """Iterate over the agents that are stored or loaded, by kind and name; sub-agents are not included.

        Args:
            kind: A class, or its kind; None for all that the app serves.
            prefix: Only agents whose names begin with this.
        """
        if kind is None:
            chosen = sorted(self._served)
        else:
            cls = self._class(kind)
            chosen = sorted(all_kinds(cls))
        return self._listed(chosen, prefix)

    async def _listed(self, kinds: list[str], prefix: str) -> AsyncIterator[Handle[Any]]:
        for kind in kinds:
            after = ""
            while page := await self._calls.page(agent_id(kind, prefix), after, PAGE):
                for each in page:
                    yield make_handle(self._calls, each, self._served[kind])
                after = page[-1]

    @property
    def conversations(self) -> Conversations:
        """The conversations of all agents: list, rename, archive, delete and watch them."""
        return Conversations(self)

    @property
    def approvals(self) -> Approvals:
        """The calls of all agents that wait for an approval: list, answer and watch them."""
        return Approvals(self)

    @property
    def shares(self) -> Shares:
        """Links with which anyone may read a conversation: create, list and revoke them."""
        return Shares(self)

    @property
    def principals(self) -> Principals:
        """What is stored about one person: export it, or erase it."""
        return Principals(self)

    async def disconnect(self, *, principal: Principal | str) -> int:
        """Close every socket and stream of a principal, at once; return how many there were.

        The stock client connects again and is asked who it is: let `authenticate` refuse it first. Turns go on.
        """
        raise NotImplementedError

    async def exists(self, cls: type[Agent] | str, name: str) -> bool:
        """Tell whether an agent is stored or loaded; does not create it. `cls` is a class, or its kind."""
        return await self._calls.exists(_root(agent_kind(self._class(cls)), name))

    async def destroy(self, cls: type[Agent] | str, name: str) -> None:
        """Delete an agent, all that it stored and every agent below it. `cls` is a class, or its kind."""
        kind = agent_kind(self._class(cls))
        root = _root(kind, name)
        await self._note_act("destroy", kind, name)
        await self._calls.destroy(root)

    def class_of_kind(self, kind: str) -> type[Agent] | None:
        """Return the class that is served under a kind, its present one or one of its `aliases`."""
        return self._served.get(kind)

    def _class(self, given: type[Agent] | str) -> type[Agent]:
        cls = self._served.get(given) if isinstance(given, str) else self.classes.get(agent_kind(given))
        if cls is None or (not isinstance(given, str) and cls is not given):
            name = repr(given) if isinstance(given, str) else given.__name__
            raise UsageError(f"unable to use agents of {name}; this app does not serve them")
        return cls

    def _handle_at(self, agent: AgentId) -> Handle[Any]:
        """Return a handle to an agent at the root or below another."""
        cls = class_of(agent, self._served)
        if cls is None:
            raise UsageError(f"unable to use {agent!r}; no class of kind {split_agent_id(agent)[0]!r} is known here")
        return make_handle(self._calls, agent, cls)


def _root(kind: str, name: str) -> AgentId:
    if not can_name_a_root(name):
        raise UsageError(f"unable to get {name!r}; its name leads to a sub-agent. Use `sub_agent` of its parent.")
    return agent_id(kind, name)
