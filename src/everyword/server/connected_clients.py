"""Connected clients of each agent, by the names that they give themselves (`_pk`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..ids import AgentId

__all__ = ["ConnectedClients"]


@dataclass
class ConnectedClients:
    """Which clients (`_pk`) have a socket to which agent."""

    _here: dict[AgentId, dict[str, int]] = field(default_factory=dict)

    @contextmanager
    def present(self, agent: AgentId, owner: str) -> Iterator[None]:
        here = self._here.setdefault(agent, {})
        here[owner] = here.get(owner, 0) + 1
        try:
            yield
        finally:
            here[owner] -= 1
            if here[owner] <= 0:
                del here[owner]
            if not here:
                self._here.pop(agent, None)

    def is_present(self, agent: AgentId, owner: str) -> bool:
        return owner in self._here.get(agent, ())
