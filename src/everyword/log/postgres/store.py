"""The store that keeps all logs in one PostgreSQL database."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ...errors import Fenced, LogUnavailable, OwnedElsewhere, UsageError
from ...ids import AgentId, Epoch, Millis, Seq, children_prefix, root_id
from ...rows import Row
from ..base import REPLAYED, Activation, AgentDatabases, Batch, Pruned, StoreFiles
from ..erasing import StoreErasure
from ..lists import AgentLists
from ..nodes import LiveNode, NodeMembership
from ..receipt import Receipt
from .address import DatabaseAddress
from .agent_databases import PostgresAgentDatabases
from .agent_leases import AgentLease, AgentLeases, OwnedRoot
from .agent_transfer import TransferredAgent, transfer_agent
from .connection import Connector
from .days import Days
from .erasing import PostgresErasure
from .lists import PostgresLists
from .log_reads import LogReads
from .membership import Membership
from .node_lease import NodeLease
from .pending_write import PostgresPendingRows
from .queries import Queries
from .retention import PostgresRetention
from .row_codec import agent_row, kept_rows, message_rows, stored_events, turn_rows
from .schema import prepare_schema
from .writer import Fence, PostgresWriter

__all__ = ["DEFAULT_LEASE", "PostgresLog"]

log = logging.getLogger("everyword.nodes")

DEFAULT_LEASE: Final = 6.0
OPEN_AGAIN: Final = 0.5
"""Seconds between two attempts to open the store."""

READERS: Final = 4


class PostgresLog(LogReads):
    """A `LogStore` and `LogAdmin` for one node, alone or among several.

    Args:
        url: `postgresql://user:password@host/database`; `?schema=` names the schema, "everyword" by default,
            `?pooler=transaction` is needed behind a pooler that hands sessions out per transaction, `?sql_limit=` is
            the number of megabytes that an agent's own SQL database may have, 16 by default, and `?sql_memory=` how
            many the open ones of this node may take in memory, 256 by default.
        lease: Seconds after which a node that died is replaced. Shorter ones notice sooner, and mistake a busy machine
            for a dead one sooner.
        durability: "power" (the default) flushes every commit to disk, "process" does not: a crash of the database may
            then take back the last half second.
        name: What people call this node; the host's name and the process id by default.
        link_url: Where other nodes reach this one.
        patience: Seconds that opening waits for a database that cannot be reached or is starting.
    """

    def __init__(
        self,
        url: str,
        *,
        lease: float = DEFAULT_LEASE,
        durability: str = "power",
        name: str | None = None,
        link_url: str = "",
        patience: float = 30.0,
    ) -> None:
        if durability not in ("process", "power"):
            raise UsageError(f"unable to use durability {durability!r}; it is 'process' or 'power'")
        if not 0.1 <= lease < math.inf:
            raise UsageError(f"unable to use a lease of {lease} s; give seconds, such as 6; 0.1 is the shortest")
        self._connector = Connector(DatabaseAddress.parse(url), lease=lease, flushes=durability == "power")
        self._leases, self._days = AgentLeases(), Days()
        self._node = NodeLease(
            self._connector,
            name=name or f"{socket.gethostname()}-{os.getpid()}",
            url=link_url,
            lease=lease,
            on_lost=self._lost,
            on_change=self._changed,
        )
        self._patience = patience
        self._opened: tuple[PostgresWriter, Queries, PostgresRetention] | None = None
        self._is_open = False
        self._databases = PostgresAgentDatabases(
            self._connector, self._node, self._leases, lambda: self._queries, timeout=lease / 3
        )
        self.databases: AgentDatabases | None = self._databases
        self.files: StoreFiles | None = None
        self.lists: AgentLists | None = PostgresLists(lambda: self._queries)
        self.erasure: StoreErasure | None = PostgresErasure(
            self._connector, self._leases, self._days, lambda: self._writer, lambda: self._queries
        )
        self._membership = Membership(self._node, self._connector, self._leases, lambda: self._parts_of_it[:2])
        self.nodes: NodeMembership | None = self._membership

    # -- opening and closing -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._opened is not None:
            raise UsageError("unable to open the store; it was opened before. Call `open` once")
        until = asyncio.get_running_loop().time() + self._patience
        while True:
            try:
                await self._open()
                return
            except LogUnavailable as exc:
                # It may be starting, or restarting, just as this process is.
                left = until - asyncio.get_running_loop().time()
                if left <= 0:
                    raise
                log.warning("%s. Trying again for %d s", exc, left)
                await asyncio.sleep(min(OPEN_AGAIN, left))

    async def _open(self) -> None:
        await prepare_schema(self._connector)
        pool = await self._connector.pool(READERS)
        writer = PostgresWriter(self._connector, self._node, self._leases, self._days)
        retention = PostgresRetention(self._connector, pool, self._days)
        self._opened = writer, Queries(self._connector, pool), retention
        try:
            await self._node.start()
            await writer.start()
            await retention.make_days(self._node.clock.now())
        except BaseException:
            await self.aclose()
            self._opened = None
            raise
        self._databases.reopen()  # the attempt before this one has closed them
        self._is_open = True

    async def aclose(self) -> None:
        if self._opened is None:
            return
        writer, queries, _ = self._opened
        await self._databases.aclose()
        self._is_open = False
        await writer.stop()
        await self._node.stop()
        await queries.aclose()

    def _lost(self, why: str) -> None:
        """The node's lease is over: nothing of ours is written from now on, and nothing in memory counts."""
        self._leases.clear()
        if self._opened is not None:
            self._opened[0].abort()
        self._databases.abort()
        self._membership.tell_lost(why)

    def _changed(self, nodes: Sequence[LiveNode]) -> None:
        self._membership.tell_change(nodes)

    # -- one owner per agent -------------------------------------------------------------------------------------------

    async def activate(self, agent: AgentId, *, recent: int = 256) -> Activation:
        activation: Activation = await self._writer.submit_shared(f"load {agent!r}", self._take, (agent, recent))
        return activation

    async def _take(
        self, connection: Any, fence: Fence, requests: Sequence[tuple[AgentId, int]]
    ) -> list[Activation | Exception]:
        """Take these agents and load them, in one call; each with so many of its last turns."""
        places = sorted(range(len(requests)), key=lambda place: requests[place])
        agents = [requests[place][0] for place in places]
        roots = [root_id(agent) for agent in agents]
        known = [self._leases.is_root_known(root) for root in roots]
        values = agents, roots, [requests[place][1] for place in places], known, list(REPLAYED)
        try:
            found = await connection.fetch(self._connector.sql["activate_all"], *fence, *values)
        except BaseException:
            self._membership.may_own_unknown = True  # its callers may not ask again, and the agents are to be woken
            raise
        taken: dict[int, Activation | Exception] = {}
        for place, agent, row in zip(places, agents, found, strict=True):
            try:
                taken[place] = self._taken(agent, row)
            except Exception as exc:  # noqa: BLE001 - a damaged row is the error of its own agent
                taken[place] = exc
        return [taken[place] for place in range(len(requests))]

    def _taken(self, agent: AgentId, found: Any) -> Activation:
        if found["key"] is None:
            owner = found["owner"]
            raise OwnedElsewhere(f"unable to load {agent!r}; node {owner} owns it. Reconnect.", node=owner or 0)
        lease = AgentLease(
            found["key"], OwnedRoot(found["root"], found["term"]), found["epoch"], found["head"], _parts(found)
        )
        self._leases.put(agent, lease)
        return _activation(found)

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        if self._opened is None:
            why = LogUnavailable("unable to append; the store is not open")
            return [Receipt(error=why, is_done=True) for _ in batches]
        return self._opened[0].append(batches)

    async def destroy(self, agent: AgentId, epoch: Epoch) -> None:
        async def destroy(connection: Any, fence: Fence) -> None:
            lease = self._leases.get(agent, epoch)
            values = (lease.key, epoch, children_prefix(agent)) if lease is not None else None
            if values is None or not await connection.fetchval(self._connector.sql["destroy"], *fence, *values):
                raise Fenced(f"unable to destroy {agent!r}; epoch {epoch} no longer holds its lease")
            for each in [each for each in self._leases if each == agent or each.startswith(children_prefix(agent))]:
                self._leases.drop(each)

        await self._writer.submit(f"destroy {agent!r}", destroy)

    # -- reading; see also LogReads ------------------------------------------------------------------------------------

    async def has(self, agent: AgentId) -> bool:
        return await self._queries.has(agent)

    async def agents_named(self, prefix: str, *, after: str = "", limit: int = 500) -> list[AgentId]:
        return await self._queries.agents_named(prefix, after, limit)

    async def due(self, until: Millis, limit: int = 1000) -> list[tuple[AgentId, Millis]]:
        return await self._queries.due(until, limit, self._node.incarnation)

    async def next_wake(self) -> Millis | None:
        earliest = await self.due(Millis(2**62), 1)
        return earliest[0][1] if earliest else None

    # -- retention and tools -------------------------------------------------------------------------------------------

    async def prune(self, before: Millis, *, limit: int = 2000) -> Pruned:
        now = self._node.clock.now()
        pruned = await self._retention.prune(before, limit, now)
        if not pruned.more:
            await self._retention.make_days(now)
        return pruned

    async def erase_streams(self, agent: AgentId, until: Millis, *, limit: int = 20) -> int:
        return await self._retention.erase_streams(agent, until, limit)

    async def replace_rows(self, agent: AgentId, rows: Iterable[Row], wake: Millis | None) -> None:
        async def replace(connection: Any, fence: Fence) -> None:
            sql, lease = self._connector.sql, self._leases.find(agent)
            if lease is None:
                if await connection.fetchval(sql["key_of"], agent) is None:
                    raise UsageError(f"unable to replace the rows of {agent!r}; it has no log")
                raise Fenced(f"unable to replace the rows of {agent!r}; this node does not hold its lease")
            pending = PostgresPendingRows(self._days)
            for row in rows:
                pending.put(lease.key, row, 0)
            pending.wake(lease.key, wake)
            proof = lease.key, lease.epoch, lease.root.key, lease.root.term
            if not await connection.fetchval(sql["replace_rows"], *fence, *proof, *pending.arguments()):
                raise Fenced(f"unable to replace the rows of {agent!r}; it has another owner now")

        await self._writer.submit(f"replace the rows of {agent!r}", replace)

    async def put_agent(self, given: TransferredAgent) -> None:
        """Write a whole agent of another store; see `transfer_agent`."""

        async def put(connection: Any, fence: Fence) -> None:
            self._leases.drop_families({root_id(given.agent)})
            await transfer_agent(self._connector, self._days, connection, fence, given)

        await self._writer.submit(f"copy {given.agent!r}", put)

    @property
    def _writer(self) -> PostgresWriter:
        return self._parts_of_it[0]

    @property
    def _queries(self) -> Queries:
        return self._parts_of_it[1]

    @property
    def _retention(self) -> PostgresRetention:
        return self._parts_of_it[2]

    @property
    def _parts_of_it(self) -> tuple[PostgresWriter, Queries, PostgresRetention]:
        if self._opened is None or not self._is_open:
            raise LogUnavailable("unable to use the store; it is not open")
        return self._opened


def _parts(found: Any) -> dict[int, int]:
    """Return the partitions of the chunks of open turns."""
    return {turn["turn"]: turn["part"] for turn in found["turns"] if turn["ended_at"] is None and turn["part"]}


def _activation(found: Any) -> Activation:
    return Activation(
        epoch=Epoch(found["epoch"]),
        head=Seq(found["head"]),
        agent=agent_row(found["generation"], found["leaf"], found["last_turn"], found["last_node"]),
        turns=turn_rows(found["turns"], skip=1),
        messages=message_rows(found["messages"]),
        chunks=stored_events(found["events"]),
        kept=kept_rows(found["kept"]),
        wakes=[(AgentId(row["id"]), Millis(row["at"])) for row in found["wakes"] or ()],
        last_at=Millis(found["last_at"]),
    )
