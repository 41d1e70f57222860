"""What agents cost that wait for a schedule of tomorrow: statements, and CPU at rest."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from benchmarks.measures import Figures
from benchmarks.nodes.measures import Columns, Figure, NodeSizes, Part, World
from benchmarks.processes import Server
from benchmarks.rows import fresh

__all__ = ["IDLE"]

TOMORROW = 24 * 60 * 60
AT_ONCE = 60
PATIENCE = 240.0
"""Seconds within which a node must have given idle agents back: it keeps them for a minute."""


async def _idle(world: World, sizes: NodeSizes, number: int) -> Columns:
    store = world.schema()
    node = world.node("node", store)
    found: Columns = {}
    node.start()
    try:
        found["none"] = await _at_rest(world, node, sizes.resting)
        await _schedule(node, sizes.idle)
        found["loaded"] = await _at_rest(world, node, sizes.resting)
        if sizes.unloads:
            await _until_given_back(world, store)
            found["stored"] = await _at_rest(world, node, sizes.resting)
    finally:
        node.stop()
    if "lost its lease" in (said := (node.folder / "server.log").read_text(errors="replace")):
        raise RuntimeError(f"the node lost its lease; it said:\n{said[-1000:]}")
    for figures in found.values():
        figures["beyond"] = figures["statements"] - found["none"]["statements"]
    return found


async def _schedule(node: Server, count: int) -> None:
    """Make agents that have something to do tomorrow."""
    names = iter(fresh(count))

    async def make(threads: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        for name in names:
            path = f"/agents/chat/{name}/schedule?seconds={TOMORROW}"
            await loop.run_in_executor(threads, node.request, "POST", path)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        await asyncio.gather(*(make(threads) for _ in range(AT_ONCE)))


async def _until_given_back(world: World, store: str) -> None:
    schema = store.partition("schema=")[2]
    owned = f"select count(*) from {schema}.agent where node is not null"
    async with asyncio.timeout(PATIENCE):
        while (await world.database.fetch(owned))[0][0]:  # noqa: ASYNC110 - another process gives them back
            await asyncio.sleep(1)


async def _at_rest(world: World, node: Server, seconds: float) -> Figures:
    await asyncio.sleep(min(seconds, 2))  # what the start, or the last request, left to do
    cpu, database = node.usage().cpu, world.database.cpu()
    await asyncio.sleep(seconds)
    cpu, database = node.usage().cpu - cpu, world.database.cpu() - database
    counted = await world.database.statements(seconds)
    print("    " + ", ".join(f"{name} {count}" for name, count in counted.most_common()), flush=True)
    return {
        "statements": counted.total() / seconds,
        "node": cpu / seconds * 100,
        "database": database / seconds * 100,
        "memory": node.usage().memory / 1e6,
    }


def _columns(sizes: NodeSizes) -> dict[str, str]:
    columns = {"none": "no agents", "loaded": f"{sizes.idle:,} loaded"}
    return {**columns, "stored": f"{sizes.idle:,} stored"} if sizes.unloads else columns


IDLE = Part(
    "idle",
    "Agents that wait for a schedule of tomorrow, one node",
    _columns,
    (
        Figure("statements", "statements per second", 2),
        Figure(
            "beyond",
            "of them more than without agents",
            2,
            "0",
            lambda columns: all(figures["beyond"] < 0.2 for figures in columns.values()),
        ),
        Figure("node", "% of a core, the node", 2),
        Figure("database", "% of a core, PostgreSQL", 2),
        Figure("memory", "MB of the node", 0),
    ),
    _idle,
)
