"""Agent: the base class of all agents. The runtime makes one instance per loaded agent."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import UsageError
from ..ids import parent_id, split_agent_id
from ..principals import Principal, acting_for
from ..runtime.agent_runtime import AgentRuntime
from .agent_tools.runs import HasAgentTools
from .attachments import AgentAttachments
from .class_members import check_attribute, check_members, is_framework_class
from .connections import Connection, excluding
from .fibers import HasFibers
from .handles.handle import Handle
from .jobs import HasJobs
from .kinds import agent_kind, declared_kinds, register_class
from .lifecycle import HasLifecycle
from .sql import Sql
from .state.change import StateT
from .state.models import named_model
from .state.shared_state import SharedState
from .sub_agents import HasSubAgents

if TYPE_CHECKING:
    from .handles.app_handle import AppHandle

__all__ = ["Agent"]

log = logging.getLogger("everyword.agents")


class Agent(SharedState[StateT], HasJobs, HasFibers, Sql, HasSubAgents, HasAgentTools, HasLifecycle):
    """One agent: a class, a name and its own log. An instance exists while the agent is loaded.

    Do not keep lasting data in attributes: an instance is lost when the agent is unloaded. Use `state` for data that
    the agent shares with its clients.
    """

    kind: ClassVar[str]
    """The path segment of the class: `chat` for `Chat`, unless the class sets another. Agents are stored under it."""

    aliases: ClassVar[Sequence[str]] = ()
    """Former kinds of the class. Agents that are stored under one keep their id, and can be reached by every kind."""

    _connections: dict[str, Connection]
    """The open connections, by serial."""

    _declared_kind: ClassVar[str | None] = None
    _handle_type: ClassVar[type[Handle[Any]]] = Handle
    _app: AppHandle | None = None
    _family_callables: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Name that clients call → the attribute, and the method of the object there."""

    read_only_may_send: ClassVar[bool] = False
    """Whether `on_message` gets frames of read-only clients; if False, these frames are ignored."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        register_class(cls)
        if is_framework_class(cls):
            return
        check_members(cls)
        if "state_model" not in vars(cls):
            cls.state_model = named_model(cls, SharedState) or cls.state_model
        cls._declared_kind, cls.aliases = declared_kinds(cls)
        cls.kind = agent_kind(cls)

    if not TYPE_CHECKING:  # otherwise type checkers would accept any assignment

        def __setattr__(self, name: str, value: Any) -> None:
            check_attribute(self, name)
            super().__setattr__(name, value)

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._connections = {}

    @property
    def name(self) -> str:
        """The instance's name, as in the URL."""
        return split_agent_id(self._runtime.agent)[1]

    @property
    def app(self) -> AppHandle:
        """The agents of the app that serves this one: `await self.app.get(Shop, "main").add(2)`."""
        if self._app is None:
            raise UsageError("unable to use the app; this agent was made without one")
        return self._app

    @property
    def parent(self) -> Handle[Any] | None:
        """The agent that this one is a sub-agent of; None for an agent at the root."""
        above = parent_id(self._runtime.agent)
        return self.app._handle_at(above) if above is not None else None

    @property
    def principal(self) -> Principal | None:
        """The principal that the running code acts for: it asked the turn, called, sent the request or queued the job.

        None if there is none: in `on_start`, in schedules of the class, and in your own scripts.
        """
        acting = acting_for()
        return Principal.of(acting) if acting is not None else None

    @property
    def attachments(self) -> AgentAttachments:
        """Files of the conversation: read what users have sent, and store what the agent makes."""
        return AgentAttachments(self._runtime.attachments)

    # -- connections -----------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        """Called when the agent is loaded, before the instance is used; again each time the agent is loaded again."""

    def prepare_connection(self, connection: Connection, request: Any) -> None:
        """Called with a new connection before anything is sent to it: set its `tags`, or `has_protocol` to False.

        `connections(tag)` finds it by its tags. Without the protocol it gets no frames of the state or the chat, only
        what the agent itself sends and the replies to its own calls.
        """

    async def on_connect(self, connection: Connection, request: Any) -> None:
        """Called with a new connection, after its identity frame was sent. `request` has its headers and query."""

    async def on_message(self, connection: Connection, message: str) -> None:
        """Called with a frame that is not part of the protocol, unchanged; see `read_only_may_send`."""

    async def on_close(self, connection: Connection, code: int, reason: str) -> None:
        """Called when a connection has closed; not when another node takes it over."""

    async def on_error(self, connection: Connection | None, error: Exception) -> None:
        """Called when one of these hooks raised; the socket stays open."""
        log.error("a hook of %r raised", self, exc_info=error)

    async def on_erase(self, principal: Principal) -> None:
        """Called before a principal is erased from the agent's log; delete what your own tables and state have of it.

        Called for agents whose log names the principal, again if the erasure is continued after a crash. Of the
        principal only the id is known.
        """

    async def on_request(self, request: Any) -> Any:
        """Called with an HTTP request to a path that the framework does not serve; return a Starlette response.

        From read-only clients it gets only GET, HEAD and OPTIONS: change nothing when answering those.
        """
        return None

    def connections(self, tag: str | None = None) -> list[Connection]:
        """Return the open connections, or only those with a tag."""
        return [each for each in self._connections.values() if tag is None or tag in each.tags]

    def broadcast(self, message: Any, *, exclude: Iterable[Connection | str] = ()) -> None:
        """Send text, or any other value as JSON, to all but those in `exclude`: connections, or their ids."""
        for connection in excluding(self.connections(), exclude):
            connection.send(message)

    def _admit(self, connection: Connection) -> None:
        """Add a connection; called by the server."""
        connection._states = self._runtime.state
        self._connections[connection.serial] = connection

    def _dismiss(self, connection: Connection) -> None:
        """Remove a connection; called by the server."""
        self._connections.pop(connection.serial, None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
