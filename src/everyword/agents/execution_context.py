"""The context of running code: the current agent, its turn, and the agents that wait for it."""

from __future__ import annotations

from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

from ..ids import AgentId
from ..messages.attachment_contents import attachment_reader
from ..runtime.api import TurnCall

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["current_agent_in", "current_turn", "get_current_agent", "set_current_agent", "set_waiting_agents"]
__all__ += ["turn_of_agent", "waiting_agents"]

_current_agent: ContextVar[Any] = ContextVar("everyword_current_agent", default=None)

current_turn: ContextVar[TurnCall | None] = ContextVar("everyword_current_turn", default=None)
"""The attempt at a turn that the running code is part of."""

_waiting_agents: ContextVar[frozenset[AgentId]] = ContextVar("everyword_waiting_agents", default=frozenset())
"""Agents whose turns wait for the call that the running code is part of."""


def get_current_agent() -> Agent | None:
    """Return the agent whose code is running: a hook, a callable, a tool or an answer; None elsewhere."""
    agent: Agent | None = _current_agent.get()
    return agent


def current_agent_in(context: Context) -> Agent | None:
    """Return the agent whose code runs in a context."""
    agent: Agent | None = context.get(_current_agent)
    return agent


def set_current_agent(agent: object) -> None:
    """Make `agent` the current one for the rest of this task."""
    _current_agent.set(agent)
    runtime = getattr(agent, "_runtime", None)
    attachment_reader.set(runtime.attachments.read_now if runtime is not None else None)


def waiting_agents() -> frozenset[AgentId]:
    """Return the agents whose turns wait for the running code: its own, and those that called it."""
    call = current_turn.get()
    return _waiting_agents.get() if call is None else _waiting_agents.get() | {call.agent}


def set_waiting_agents(agents: frozenset[AgentId]) -> None:
    """Record, for the rest of this task, that turns of these agents wait for it."""
    _waiting_agents.set(agents)


def turn_of_agent(agent: AgentId) -> TurnCall | None:
    """Return the attempt that the running code is part of, if it is an attempt of this agent; None otherwise."""
    call = current_turn.get()
    return call if call is not None and call.agent == agent else None
