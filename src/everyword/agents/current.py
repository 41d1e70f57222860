"""Which turn the code that runs is part of."""

from __future__ import annotations

from contextvars import ContextVar

from ..ids import AgentId
from ..runtime.api import TurnCall

__all__ = ["current_turn", "turn_of_agent"]

current_turn: ContextVar[TurnCall | None] = ContextVar("everyword_current_turn", default=None)
"""The attempt that is being made here."""


def turn_of_agent(agent: AgentId) -> TurnCall | None:
    """Return the attempt that is being made here, if it is this agent's: another's is none of its business."""
    call = current_turn.get()
    return call if call is not None and call.agent == agent else None
