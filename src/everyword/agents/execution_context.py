"""Which turn the code that runs is part of."""

from __future__ import annotations

from contextvars import ContextVar

from ..ids import AgentId
from ..runtime.api import TurnCall

__all__ = ["answering", "current_turn", "is_waited_for", "turn_of_agent"]

current_turn: ContextVar[TurnCall | None] = ContextVar("everyword_current_turn", default=None)
"""The attempt that is being made here."""

_answering: ContextVar[frozenset[AgentId]] = ContextVar("everyword_answering", default=frozenset())
"""Agents whose turns wait for the call that the running code is part of."""


def answering() -> frozenset[AgentId]:
    """Return the agents whose turns wait for the code that runs: its own, and those that called it."""
    call = current_turn.get()
    return _answering.get() if call is None else _answering.get() | {call.agent}


def is_waited_for(agents: frozenset[AgentId]) -> None:
    """Note for the rest of this task that turns of these agents wait for it."""
    _answering.set(agents)


def turn_of_agent(agent: AgentId) -> TurnCall | None:
    """Return the attempt that is being made here, if it is this agent's: another's is none of its business."""
    call = current_turn.get()
    return call if call is not None and call.agent == agent else None
