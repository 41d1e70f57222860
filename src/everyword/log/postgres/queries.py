"""Everything that is read without a lease, by a few connections of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ids import AgentId, Millis, RequestId, Seq, TurnId
from ...rows import AgentRow, KeptRow, MessageRow, TurnRow
from ..base import Stored
from ..nodes import LiveNode
from .connection import DRIVER_ERRORS, Connector, refusal
from .row_codec import agent_row, kept_rows, message_rows, stored_events, turn_rows

__all__ = ["Queries"]


class Queries:
    """Reads the store. `pool` is a pool of connections of the driver."""

    def __init__(self, connector: Connector, pool: Any) -> None:
        self._connector, self._pool = connector, pool

    async def read(self, agent: AgentId, after: Seq, limit: int, size: int | None) -> list[Stored]:
        found = await self._fetch("read_events", f"read {agent!r}", agent, after, limit)
        events = [event for event in stored_events(found) if event.seq > after][:limit]
        if size is None:
            return events
        total = 0
        for count, event in enumerate(events):
            total += len(event.body)
            if total > size:
                return events[: max(count, 1)]
        return events

    async def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        return stored_events(await self._fetch("read_turn", f"read {agent!r}", agent, turn))

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        found = await self._fetch("conversation", f"read {agent!r}", agent)
        if not found:
            return None, []
        return agent_row(*tuple(found[0])[:4]), message_rows(tuple(row)[4:] for row in found if row["node"] is not None)

    async def agent_row(self, agent: AgentId) -> AgentRow | None:
        found = await self._fetch("agent_row", f"read {agent!r}", agent)
        return agent_row(*found[0]) if found else None

    async def kept(self, agent: AgentId) -> list[KeptRow]:
        return kept_rows(await self._fetch("kept", f"read {agent!r}", agent))

    async def has(self, agent: AgentId) -> bool:
        return bool(await self._fetch("has", f"look for {agent!r}", agent))

    async def has_database(self, agent: AgentId) -> bool:
        return bool(await self._fetch("has_pages", f"look for the database of {agent!r}", agent))

    async def view_version(self, agent: AgentId) -> tuple[Any, ...]:
        """Return a value that changes when anything changes that the views in the agent's database show."""
        found = await self._fetch("view_version", f"read {agent!r}", agent)
        return tuple(found[0]) if found else ()

    async def agents(self, prefix: str) -> list[AgentId]:
        return [AgentId(row["id"]) for row in await self._fetch("agents", "list the agents", prefix)]

    async def agents_named(self, prefix: str, after: str, limit: int) -> list[AgentId]:
        found = await self._fetch("agents_named", "list the agents", prefix, after, limit)
        return [AgentId(row["id"]) for row in found]

    async def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None:
        found = await self._fetch("find_turn", f"read {agent!r}", agent, request)
        return turn_rows(found)[0] if found else None

    async def turns(self, agent: AgentId, newest: int | None) -> list[TurnRow]:
        return turn_rows(reversed(await self._fetch("newest_turns", f"read {agent!r}", agent, newest)))

    async def due(self, until: Millis, limit: int, node: int) -> list[tuple[AgentId, Millis]]:
        """Return wake times of agents that belong to this node, or to no live one."""
        found = await self._fetch("due", "read the wake times", until, limit, node)
        return [(AgentId(row["id"]), Millis(row["at"])) for row in found]

    async def next_claim(self, after: Millis, until: Millis) -> Millis | None:
        """Return the next wake time of agents that no live node owns."""
        at = (await self._fetch("next_claim", "read the wake times", after, until))[0][0]
        return None if at is None else Millis(at)

    async def owner(self, root: AgentId) -> LiveNode | None:
        """Return the live node that owns a root agent."""
        found = await self._fetch("owner", f"look for the owner of {root!r}", root)
        return LiveNode(*found[0]) if found else None

    async def shared_secret(self, new: bytes) -> bytes:
        """Return the secret of the nodes; `new` if there was none."""
        found = (await self._fetch("read_secret", "read the secret of the nodes"))[0][0]
        if found is None:
            found = (await self._fetch("make_secret", "make a secret for the nodes", new))[0][0]
        secret: bytes = found
        return secret

    async def listed(self, name: str, *values: Any) -> Sequence[Any]:
        """Return what a statement of the lists selects."""
        return await self._fetch(name, "read the lists", *values)

    async def aclose(self) -> None:
        await self._pool.close()

    async def _fetch(self, name: str, doing: str, *values: Any) -> Sequence[Any]:
        try:
            found: Sequence[Any] = await self._pool.fetch(self._connector.sql[name], *values)
        except DRIVER_ERRORS as exc:
            raise refusal(doing, exc) from exc
        return found
