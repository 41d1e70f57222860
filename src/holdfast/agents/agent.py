"""The base of everything that users subclass: an instance per agent, beside the runtime and not beneath it."""

from __future__ import annotations

from typing import ClassVar

from ..ids import split_agent_id
from ..runtime.api import AgentPort
from .naming import agent_kind

__all__ = ["Agent"]


class Agent:
    """One agent: a class, a name, a log of its own. An instance lives while the agent is loaded.

    Nothing that must last belongs in attributes: instances come and go, the log stays.
    """

    kind: ClassVar[str]
    """The path segment of the class, e.g. `chat` for `Chat`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = agent_kind(cls)

    def __init__(self, port: AgentPort) -> None:
        self._port = port

    @property
    def name(self) -> str:
        """The instance's name, as in the URL."""
        return split_agent_id(self._port.agent)[1]

    async def load(self) -> None:
        """Load the agent, so that what it remembers can be read; only needed from outside a running agent."""
        await self._port.load()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
