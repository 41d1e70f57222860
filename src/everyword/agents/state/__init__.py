"""State: one JSON value that an agent shares with its clients."""

from __future__ import annotations

from .change import StateChange, StateT
from .shared_state import SharedState, change_state, shown_state

__all__ = ["SharedState", "StateChange", "StateT", "change_state", "shown_state"]
