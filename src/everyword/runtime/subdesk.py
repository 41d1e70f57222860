"""An agent's sub-agents: `runtime.api.SubPort` over the store and the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.commands import Create
from ..ids import AgentId, children_prefix, sub_agent_id
from .directory import Directory

if TYPE_CHECKING:
    from .port import Port

__all__ = ["SubDesk"]


class SubDesk:
    """Implements `SubPort` for one agent of a directory."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    def at(self, kind: str, name: str) -> Port:
        from .port import Port

        return Port(self._directory, sub_agent_id(self._agent, kind, name))

    async def make(self, kind: str, name: str) -> Port:
        port = self.at(kind, name)
        async with self._directory.attach(port.agent) as loaded:
            if loaded.actor.tail.head == 0:
                await loaded.actor.ask(Create())
        return port

    async def find(self, kind: str, name: str) -> Port | None:
        port = self.at(kind, name)
        agent = await self._directory.names.find(port.agent)
        return port if agent in await self.all() else None

    async def all(self) -> list[AgentId]:
        return await self._directory.store.agents(children_prefix(await self._directory.names.find(self._agent)))
