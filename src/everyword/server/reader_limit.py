"""The limit on open sockets and event streams, per agent and per principal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..errors import TooManyQueued
from ..ids import AgentId

__all__ = ["ReaderLimit"]

K = TypeVar("K", bound=str)


class ReaderLimit:
    """Counts the open sockets and event streams of each agent and each principal."""

    def __init__(self, per_agent: int, per_principal: int) -> None:
        self._per_agent, self._per_principal = per_agent, per_principal
        self._by_agent: Counter[AgentId] = Counter()
        self._by_principal: Counter[str] = Counter()

    def check(self, agent: AgentId, principal: str) -> None:
        """Raise `TooManyQueued` when the agent, or the principal, has as many readers as allowed."""
        if self._by_agent[agent] >= self._per_agent:
            raise TooManyQueued(
                f"unable to follow {agent!r}; it has {self._per_agent} readers, which is the limit. Try again later."
            )
        self.check_principal(principal)

    def check_principal(self, principal: str) -> None:
        """Raise `TooManyQueued` when the principal has as many sockets and streams open as allowed."""
        if self._by_principal[principal] >= self._per_principal:
            count = self._per_principal
            raise TooManyQueued(f"unable to open another connection; you have {count}, which is the limit. Close some.")

    @property
    def is_in_use(self) -> bool:
        """Whether any socket or stream is open."""
        return bool(self._by_agent)

    @contextmanager
    def hold(self, agent: AgentId, principal: str) -> Iterator[None]:
        """Count a reader while the block runs. Call `check` before: a refusal needs a status, or a close code."""
        self._by_agent[agent] += 1
        self._by_principal[principal] += 1
        try:
            yield
        finally:
            _give_back(self._by_agent, agent)
            _give_back(self._by_principal, principal)


def _give_back(taken: Counter[K], key: K) -> None:
    taken[key] -= 1
    if not taken[key]:
        del taken[key]
