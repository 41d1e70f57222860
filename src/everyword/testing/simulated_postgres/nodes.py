"""Nodes: registered, renewed, declared gone; see the end of `migrations/0002_functions.sql`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from ...log.postgres.schema import OLDEST, VERSION
from .reads import node_rows
from .server import Call, statement
from .tables import FenceRecord, NodeRecord, Row, rows


@statement("register")
async def register(call: Call, name: str, url: str, version: int, lease: timedelta) -> list[Row]:
    tables = call.tables
    node = max(tables.nodes, default=0) + 1
    until = call.now + lease.total_seconds() * 1000
    tables.nodes[node] = NodeRecord(node, name, url, version, int(call.now), until)
    tables.fences[node] = FenceRecord()
    return rows("id", [[node]])


@statement("take_fence")
async def take_fence(call: Call, node: int, lane: int) -> list[Row]:
    assert lane == 0, "the lane that writes logs; the databases of agents are not simulated"
    fence = call.tables.fences.get(node)
    if fence is None:
        return []
    await call.alone(fence)
    if fence.is_gone:
        return []
    fence.generation, fence.backend = fence.generation + 1, call.backend
    return rows("generation", [[fence.generation]])


HEARTBEAT = "id name url version state since left_ms now_ms started_ms"


@statement("heartbeat")
async def heartbeat(call: Call, node: int, lease: timedelta) -> list[Row]:
    own = call.tables.nodes.get(node)
    if own is not None:
        await own.unlocked()
    if own is not None and own.state != "gone":
        own.until = call.now + lease.total_seconds() * 1000
    live = node_rows(call, [each for each in call.tables.nodes.values() if each.state != "gone"])
    return rows(HEARTBEAT, [(*each, int(call.now), call.database.started) for each in live])


@statement("declare_gone")
async def declare_gone(call: Call, node: int) -> list[Row]:
    found = call.tables.nodes[node]
    await found.unlocked()
    if found.state == "gone" or found.until >= call.now:
        return rows("is_gone", [[False]])
    found.locked = asyncio.Event()
    try:
        await end_node(call, found)
    finally:
        found.locked.set()
        found.locked = None
    return rows("is_gone", [[True]])


async def end_node(call: Call, node: NodeRecord) -> None:
    """Wait for the node's writes that are under way, and refuse all later ones."""
    fence = call.tables.fences[node.id]
    await call.alone(fence)
    fence.is_gone, node.state = True, "gone"
    if call.database.on_gone is not None:
        call.database.on_gone(node.id)


@statement("leave")
async def leave(call: Call, node: int) -> list[Row]:
    found = call.tables.nodes[node]
    await end_node(call, found)
    found.until = call.now
    for agent in call.tables.agents.values():
        if agent.node == node:
            agent.node = None
    return []


@statement("end_writes")
async def end_writes(call: Call, node: int) -> list[Row]:
    call.database.end_backend(call.tables.fences[node].backend)
    return []


@statement("set_draining")
async def set_draining(call: Call, node: int) -> list[Row]:
    found = call.tables.nodes[node]
    if found.state == "up":
        found.state = "draining"
    return []


@statement("has_table")
async def has_table(call: Call, name: str) -> list[Row]:
    return rows("has", [[True]])


@statement("store_version")
async def store_version(call: Call) -> list[Row]:
    return rows("version oldest", [[VERSION, OLDEST]])


@statement("raise_oldest")
async def raise_oldest(call: Call, version: int) -> list[Row]:
    live = [each for each in call.tables.nodes.values() if each.state != "gone"]
    return rows("is_known", [[all(each.version >= version for each in live)]])
