"""Erase a principal from the database. Dead rows, the write-ahead log and backups are the operator's: see `scrub`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ...errors import Fenced
from ...ids import AgentId, Seq, children_prefix
from ..chunk_packing import chunks_in_row, repack
from ..erasing import ErasureNote, Rewriting
from .agent_leases import AgentLeases
from .connection import Connector
from .days import Days
from .pending_write import PostgresPendingRows
from .queries import Queries
from .writer import Fence, PostgresWriter

__all__ = ["PostgresErasure"]

AGENTS: Final = 200
"""Agents whose logs one statement looks through."""

SEEN: Final = 3.0
"""Seconds after which other nodes have told their watchers of lists what was deleted: they look every second."""

VACUUM: Final = (
    "replaced rows stay in the files of the tables until `vacuum full` writes these anew, and in the write-ahead log "
    "and the backups of the database as long as you keep them"
)


class PostgresErasure:
    """The part of a database's store that erases."""

    def __init__(
        self,
        connector: Connector,
        leases: AgentLeases,
        days: Days,
        writer: Callable[[], PostgresWriter],
        queries: Callable[[], Queries],
    ) -> None:
        self._connector, self._leases, self._days = connector, leases, days
        self._writer, self._queries = writer, queries

    async def mentioning(self, text: str) -> list[AgentId]:
        pattern, found, after = msgspec.json.encode(text), list[AgentId](), 0
        while True:
            rows = await self._queries().listed("mentioning", pattern, after, AGENTS)
            found += [AgentId(row["id"]) for row in rows if row["is_found"]]
            if len(rows) < AGENTS:
                return found
            after = rows[-1]["key"]

    async def rewrite(self, rewriting: Rewriting) -> None:
        async def rewrite(connection: Any, fence: Fence) -> None:
            lease, sql = self._leases.get(rewriting.agent, rewriting.epoch), self._connector.sql
            if lease is None:
                raise Fenced(f"unable to rewrite the log of {rewriting.agent!r}; its lease has another holder")
            proof = lease.key, lease.epoch, lease.root.key, lease.root.term
            pending = PostgresPendingRows(self._days)
            for row in rewriting.rows:
                pending.put(lease.key, row, 0)
            pending.wake(lease.key, rewriting.wake)
            events = [seq for seq, _ in rewriting.events], [body for _, body in rewriting.events]
            async with connection.transaction():
                is_ours = await connection.fetchval(sql["rewrite"], *fence, *proof, *events, list(rewriting.turns))
                if is_ours and rewriting.chunks:
                    await self._rewrite_chunks(connection, lease.key, dict(rewriting.chunks))
                if not is_ours or not await connection.fetchval(
                    sql["replace_rows"], *fence, *proof, *pending.arguments()
                ):
                    raise Fenced(f"unable to rewrite the log of {rewriting.agent!r}; it has another owner now")

        await self._writer().submit(f"rewrite the log of {rewriting.agent!r}", rewrite)

    async def _rewrite_chunks(self, connection: Any, key: int, chunks: Mapping[Seq, bytes]) -> None:
        """Rewrite chunks, in a transaction that has checked the lease."""
        rows = await connection.fetch(self._connector.sql["rows_of_chunks"], key, list(chunks))
        seqs, parts, bodies = list[int](), list[int](), list[bytes]()
        for seq, part, more, body in rows:
            changed = chunks_in_row(chunks, seq, more)
            seqs.append(seq)
            parts.append(part)
            bodies.append(repack(body, more, changed) if more else changed[0])
        await connection.execute(self._connector.sql["rewrite_chunks"], key, seqs, parts, bodies)

    async def rename_destroyed(self, agent: AgentId, to: AgentId) -> None:
        async def rename(connection: Any, fence: Fence) -> None:
            below = children_prefix(agent)
            for each in [each for each in self._leases if each == agent or each.startswith(below)]:
                self._leases.drop(each)
            await connection.execute(self._connector.sql["rename_destroyed"], agent, to, below)
            await connection.execute(self._connector.sql["mark_erased_change"], agent)

        await self._writer().submit("rename a destroyed agent", rename)

    async def scrub(self) -> str | None:
        if found := await self._queries().listed("erased_changes"):
            await self._forget_changes(has_readers=found[0]["is_read"])
        return VACUUM

    async def _forget_changes(self, *, has_readers: bool) -> None:
        """Forget the names of erased conversations, and owners of deleted ones: other nodes read them for watchers."""

        async def forget(connection: Any, fence: Fence) -> None:
            await connection.execute(self._connector.sql["forget_erased_changes"])

        if has_readers:
            await asyncio.sleep(SEEN)
        await self._writer().submit("forget the names of erased conversations", forget)

    async def put_notes(self, notes: Sequence[ErasureNote]) -> None:
        async def put(connection: Any, fence: Fence) -> None:
            values = [list(column) for column in zip(*map(msgspec.structs.astuple, notes), strict=True)]
            await connection.execute(self._connector.sql["put_erasure_notes"], *values)

        if notes:
            await self._writer().submit("note the progress of an erasure", put)

    async def notes(self) -> list[ErasureNote]:
        return [ErasureNote(*row) for row in await self._queries().listed("erasure_notes")]
