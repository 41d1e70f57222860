"""Agents that could not be loaded or written, and how soon each is tried again."""

from __future__ import annotations

from typing import Final

from ..ids import AgentId

__all__ = ["TRY_AGAIN", "LoadFailures"]

TRY_AGAIN: Final = 0.05
"""Seconds after which a caller tries to load an agent again that could not be loaded."""


class LoadFailures:
    """Counts failures per agent. The delay is `first` milliseconds and doubles, up to `longest`."""

    def __init__(self, first: int, longest: int) -> None:
        self._first, self._longest = first, longest
        self._counts: dict[AgentId, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, agent: AgentId) -> int:
        """Count one more failure; return the milliseconds after which the agent is tried again."""
        self._counts[agent] = self._counts.get(agent, 0) + 1
        return self.delay(agent)

    def clear(self, agent: AgentId) -> None:
        """Forget the failures of an agent that works again, or is gone."""
        self._counts.pop(agent, None)

    def delay(self, agent: AgentId) -> int:
        """Return the milliseconds after which the agent is tried again; 0 if it has not failed."""
        count = self._counts.get(agent, 0)
        return int(min(self._first * 2 ** (count - 1), self._longest)) if count else 0
