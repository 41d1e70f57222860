"""Retention: drop the days that are over, delete what lies elsewhere in small steps, and make the days that come.

One node at a time does it: the row of `store` is locked meanwhile, and a node that finds it locked leaves it alone.
"""

from __future__ import annotations

from typing import Any, Final

from ...ids import Millis
from ..base import Pruned
from .connection import DRIVER_ERRORS, Connector, refusal
from .days import DAY, Days

__all__ = ["PostgresRetention"]

DAYS_AHEAD: Final = 3
"""How many days have a partition before they begin: a node that is away for so long writes to partition 0."""

LOCK_TIMEOUT: Final = "500ms"
"""How long a change of partitions waits for reads and writes that are under way; others wait behind it meanwhile."""


class PostgresRetention:
    """Deletes old events of all agents."""

    def __init__(self, connector: Connector, pool: Any, days: Days) -> None:
        self._connector, self._pool, self._days = connector, pool, days

    async def make_days(self, now: Millis) -> None:
        """Make the partitions of today and the next days, and learn which there are."""
        today = now // DAY
        try:
            async with self._pool.acquire() as connection:
                known = await self._known(connection)
                for day in range(today, today + DAYS_AHEAD):
                    if day not in known:
                        async with connection.transaction():
                            await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
                            await connection.execute(self._connector.sql["make_day"], day)
                self._days.learn(await self._known(connection))
        except DRIVER_ERRORS as exc:
            raise refusal("make the partitions of the next days", exc) from exc

    async def _known(self, connection: Any) -> set[int]:
        return {row["day"] for row in await connection.fetch(self._connector.sql["days"])}

    async def prune(self, before: Millis, limit: int, now: Millis) -> Pruned:
        """Run one step; see `LogStore.prune`. A day that can be dropped is one step, however many chunks it has."""
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                if not await connection.fetchval(self._connector.sql["lock_store"]):
                    return Pruned(0, more=False)  # another node does it
                pruned = await self._prune(connection, before, limit, now)
                if pruned.chunks or pruned.states:
                    await connection.execute(self._connector.sql["count_deletion"])
                return pruned
        except DRIVER_ERRORS as exc:
            raise refusal("prune", exc) from exc

    async def _prune(self, connection: Any, before: Millis, limit: int, now: Millis) -> Pruned:
        by_day = now - before >= DAY
        over = sorted(day for day in await self._known(connection) if (day + 1) * DAY <= before)
        late: list[int] = []
        if by_day:
            await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
            for day in over:
                dropped = await self._value(connection, "drop_day", day, before)
                if dropped is not None:
                    return Pruned(dropped, more=True)
                late.append(day)  # a turn of it is open: the others are deleted one by one
        states = await self._value(connection, "prune_states", before, limit)
        parts = [0, *(late if by_day else sorted(await self._known(connection)))]
        chunks = 0
        for part in parts:
            if states + chunks < limit:
                left = limit - states - chunks
                chunks += await self._value(connection, "prune_chunks", part, before, left)
        is_more = states + chunks >= limit and await self._is_more(connection, parts, before)
        return Pruned(chunks, more=is_more, states=states)

    async def _is_more(self, connection: Any, parts: list[int], before: Millis) -> bool:
        return bool(await self._value(connection, "is_more_to_prune", before, parts))

    async def _value(self, connection: Any, statement: str, *values: Any) -> Any:
        return await connection.fetchval(self._connector.sql[statement], *values)

    async def erase_streams(self, agent: str, until: Millis, limit: int) -> int:
        """Delete the chunks of ended streams of kind `rsm`; see `LogStore.erase_streams`."""
        try:
            async with self._pool.acquire() as connection:
                return int(await self._value(connection, "erase_streams", agent, until, limit))
        except DRIVER_ERRORS as exc:
            raise refusal(f"erase streams of {agent!r}", exc) from exc
