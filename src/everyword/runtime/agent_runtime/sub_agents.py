"""The agents below an agent, for its own code."""

from __future__ import annotations

from ...core.commands import CreateAgent
from ...ids import AgentId, children_prefix, sub_agent_id
from ..directory import Directory

__all__ = ["SubAgentsAccess"]


class SubAgentsAccess:
    """The agents below one agent."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    def at(self, kind: str, name: str) -> AgentId:
        """Return the id of a sub-agent, whether or not there is one."""
        return self._directory.stored_ids.known(sub_agent_id(self._agent, kind, name))

    async def make(self, kind: str, name: str) -> AgentId:
        """Load a sub-agent, create it if there is none, and return its id."""
        child = self.at(kind, name)
        async with self._directory.attach(child) as loaded:
            if loaded.actor.tail.head == 0:
                await loaded.actor.ask(CreateAgent())
        return self.at(kind, name)

    async def find(self, kind: str, name: str) -> AgentId | None:
        """Return the id of a sub-agent; None when there is none."""
        child = self.at(kind, name)
        stored = await self._directory.stored_ids.find(child)
        return child if stored in await self.all() else None

    async def all(self) -> list[AgentId]:
        """Return the sub-agents that exist, theirs and so on, oldest first."""
        return await self._directory.store.agents(children_prefix(await self._directory.stored_ids.find(self._agent)))
