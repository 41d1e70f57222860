"""What a chunk costs: on PostgreSQL instead of SQLite, in larger commits, behind an edge, with two nodes."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from statistics import median

from benchmarks.client import Socket, Stamps, connect, connect_many
from benchmarks.measures import Figures, percentile
from benchmarks.nodes.measures import Columns, Figure, NodeSizes, Part, World
from benchmarks.processes import SERVERS, Server
from benchmarks.rows import ANSWERS, RATE, ROWS, TINY, fresh, paced_ask, steady, stream_all, warm_up
from everyword.ids import AgentId, Millis, Seq, TurnId
from everyword.log.base import Batch, Entry
from everyword.log.postgres.store import PostgresLog

__all__ = ["COMMITS", "ONE", "RELAY", "TWO"]

STORES = {
    "sqlite": "SQLite",
    "sqlite-power": "SQLite, flushed",
    "postgres-process": "PostgreSQL, not flushed",
    "postgres": "PostgreSQL",
}
ROW_NAMES = ("100", "tiny", "replay", "flat")
BATCHES = (1, 20, 100)
"""Rows of one commit."""
WARM = 50
"""Commits after which the database has its plans."""
BODY = b'{"t":"chunk","turn":3,"attempt":1,"index":%d,"body":{"type":"text-delta","id":"txt-0","delta":"some words "}}'


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the garbage collector of the load out of what is measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@asynccontextmanager
async def started(*nodes: Server) -> AsyncIterator[None]:
    """Run nodes, warmed up."""
    try:
        await asyncio.gather(*(asyncio.to_thread(node.start) for node in nodes))
        for node in nodes:
            await warm_up(node)
        with _no_collector():
            yield
    finally:
        for node in nodes:
            node.stop()


def turned(names: Sequence[str], number: int) -> list[str]:
    """Return the names with another one first in each round: a bad minute hits one of a column's runs at most."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


# -- one node: SQLite and PostgreSQL ---------------------------------------------------------------------------------


async def _one(world: World, sizes: NodeSizes, number: int) -> Columns:
    found: Columns = {name: {} for name in STORES}
    servers = {name: _server(world, name) for name in STORES}
    async with started(*servers.values()):
        for row in ROW_NAMES:
            for name in turned(list(STORES), number):
                before = world.database.cpu()
                figures = await ROWS[row].run(servers[name], sizes.sizes)
                if servers[name].kind.is_postgres:
                    figures["database"] = (world.database.cpu() - before) / _count(row, sizes) * 1e6
                found[name] |= {f"{row}.{each}": value for each, value in figures.items()}
    return found


def _server(world: World, name: str) -> Server:
    environment = {"BENCH_DURABILITY": "process" if name in ("sqlite", "postgres-process") else "power"}
    if name.startswith("postgres"):
        return world.node(name, world.schema(), **environment)
    server = world.node(name, "")
    server.kind = replace(SERVERS["everyword"], environment=environment)
    return server


def _count(row: str, sizes: NodeSizes) -> int:
    """Return the chunks of a row; the turns of tiny ones."""
    given = sizes.sizes
    match row:
        case "100":
            return paced_ask(given).chunks * given.chats[0]
        case "tiny":
            each = min(25, given.tiny)
            return each * (max(1, given.tiny // each) + 20)
        case "flat":
            return ANSWERS * given.flat
        case _:
            return given.replay


def _at_most(name: str, ratio: float) -> tuple[str, Callable[[Columns], bool]]:
    return f"≤ {ratio:g} ×", lambda columns: columns["postgres"][name] <= ratio * columns["sqlite"][name]


ONE = Part(
    "one",
    "One node: SQLite and PostgreSQL",
    lambda sizes: STORES,
    (
        Figure("100.cpu", "100 chats at 50 chunks/s: µs CPU of the node per chunk", 1, *_at_most("100.cpu", 1.15)),
        Figure(
            "100.database",
            "µs CPU of PostgreSQL per chunk",
            1,
            "≤ 45",
            lambda columns: columns["postgres"]["100.database"] <= 45,
        ),
        Figure("100.p50", "ms, median", 2),
        Figure("100.p99", "ms, 99 of 100", 2),
        Figure("100.held", "% of the rate held"),
        Figure("tiny.rate", "tiny turns: turns/s, one by one", 0),
        Figure("tiny.cpu", "ms CPU of the node per turn", 2),
        Figure("tiny.crowd", "turns/s, 20 chats", 0),
        Figure("tiny.database", "µs CPU of PostgreSQL per turn", 0),
        Figure("replay.time", "replay of 10,000 chunks: ms", 1),
        Figure("replay.cpu", "ms CPU of the node", 1),
        Figure("flat.rate", "one stream, flat out: chunks/s", 0),
        Figure("flat.cpu", "µs CPU of the node per chunk", 1, *_at_most("flat.cpu", 1.15)),
        Figure("flat.database", "µs CPU of PostgreSQL per chunk", 1),
        Figure("flat.first", "ms to the first chunk", 1),
    ),
    _one,
    ratio=("postgres", "sqlite"),
)

# -- the store alone, in commits of a given size ---------------------------------------------------------------------


async def _commits(world: World, sizes: NodeSizes, number: int) -> Columns:
    store = PostgresLog(world.schema())
    await store.open()
    try:
        agents = [AgentId(f"chat/{index}") for index in range(max(BATCHES))]
        epochs = {agent: (await store.activate(agent)).epoch for agent in agents}
        heads = dict.fromkeys(agents, 0)
        await _commit(world, store, agents, epochs, heads, WARM)
        return {
            str(size): await _commit(world, store, agents[:size], epochs, heads, sizes.commits)
            for size in (int(name) for name in turned([str(each) for each in BATCHES], number))
        }
    finally:
        await store.aclose()


async def _commit(
    world: World,
    store: PostgresLog,
    agents: Sequence[AgentId],
    epochs: Mapping[AgentId, int],
    heads: dict[AgentId, int],
    commits: int,
) -> Figures:
    before, own, began = world.database.cpu(), time.process_time(), time.perf_counter()
    for _ in range(commits):
        batches = []
        for agent in agents:
            heads[agent] += 1
            entries = (Entry("chunk", TurnId(3), BODY % heads[agent]),)
            batches.append(Batch(agent, epochs[agent], Seq(heads[agent]), Millis(round(time.time() * 1000)), entries))
        for receipt in store.append(batches):
            await receipt
    took, rows = time.perf_counter() - began, commits * len(agents)
    return {
        "database": (world.database.cpu() - before) / rows * 1e6,
        "store": (time.process_time() - own) / rows * 1e6,
        "commit": took / commits * 1000,
    }


COMMITS = Part(
    "commits",
    "The store without a server, by rows of one commit",
    lambda sizes: {str(size): f"{size} row{'s' if size > 1 else ''}" for size in BATCHES},
    (
        Figure(
            "database",
            "µs CPU of PostgreSQL per row",
            1,
            "≤ 12 with 20 rows",
            lambda columns: columns["20"]["database"] <= 12,
        ),
        Figure("store", "µs CPU of the caller per row", 1),
        Figure("commit", "ms per commit", 2),
    ),
    _commits,
)

# -- clients behind an edge ------------------------------------------------------------------------------------------


async def _relay(world: World, sizes: NodeSizes, number: int) -> Columns:
    found: Columns = {}
    for name in turned([str(each) for each in sizes.relayed], number):
        store = world.schema()
        owner, edge = world.node("owner", store), world.node("edge", store)
        async with started(owner, edge):
            phases = {"direct": _direct, "relayed": _relayed, "both": _both}
            figures: Figures = {}
            for phase in turned(list(phases), number):
                figures |= await phases[phase](world, sizes, owner, edge, int(name))
            figures["added"] = figures["both_added"]
            figures["share"] = figures["edge_cpu"] / figures["relayed_cpu"]
            found[name] = figures
    return found


async def _direct(world: World, sizes: NodeSizes, owner: Server, edge: Server, chats: int) -> Figures:
    """All clients at the owner."""
    sockets = await connect_many(owner.port, fresh(chats), stamps := Stamps())
    figures = await _paced(world, sizes, sockets, stamps, {"cpu": owner})
    await _close(sockets)
    return {f"direct_{name}": value for name, value in figures.items()}


async def _relayed(world: World, sizes: NodeSizes, owner: Server, edge: Server, chats: int) -> Figures:
    """All clients at the edge, all agents at the owner."""
    names = fresh(chats)
    first = await connect_many(owner.port, names)
    sockets = await connect_many(edge.port, names, stamps := Stamps())
    await _close(first)
    figures = await _paced(world, sizes, sockets, stamps, {"cpu": owner, "edge": edge})
    await _close(sockets)
    return {"edge_cpu": figures.pop("edge")} | {f"relayed_{name}": value for name, value in figures.items()}


async def _both(world: World, sizes: NodeSizes, owner: Server, edge: Server, chats: int) -> Figures:
    """In each conversation the client that asks at the owner, and one that watches at the edge."""
    names = fresh(chats)
    pairs = [(Stamps(), Stamps()) for _ in names]
    asking = [await connect(owner.port, name, here, keeps=True) for name, (here, _) in zip(names, pairs, strict=True)]
    watching = [
        await connect(edge.port, name, there, keeps=True) for name, (_, there) in zip(names, pairs, strict=True)
    ]
    ask, endings = paced_ask(sizes.sizes), [socket.ending() for socket in watching]
    await stream_all(asking, ask, sizes.sizes.ramp)
    async with asyncio.timeout(60):
        await asyncio.gather(*endings)
    for here, there in zip(asking, watching, strict=True):
        if chunks_of(here) != chunks_of(there) or here.chunks != ask.chunks:
            raise RuntimeError(f"the client of the owner got {here.chunks} chunks, that of the edge {there.chunks}")
    await _close([*asking, *watching])
    return {"both_added": median(late for here, there in pairs for late in _later(here, there))}


def chunks_of(socket: Socket) -> list[bytes]:
    """Return the times of the chunks that a socket has received, in order; they tell chunks apart."""
    return [piece[:16] for piece in b"".join(socket.kept or []).split(b"@")[1:]]


def _later(here: Stamps, there: Stamps) -> list[float]:
    """Return by how many milliseconds the same chunks came later there."""
    at = dict(zip(here.made, here.received, strict=True))
    return [(late - at[made]) / 1000 for made, late in zip(there.made, there.received, strict=True) if made in at]


async def _paced(
    world: World, sizes: NodeSizes, sockets: Sequence[Socket], stamps: Stamps, servers: Mapping[str, Server]
) -> Figures:
    """Stream on all sockets; return latencies, and microseconds of CPU per chunk of each server and the database."""
    ask, ramp = paced_ask(sizes.sizes), sizes.sizes.ramp
    chunks = ask.chunks * len(sockets)
    before = {name: server.usage().cpu for name, server in servers.items()}
    database, began = world.database.cpu(), time.time_ns() // 1000
    held = await stream_all(sockets, ask, ramp)
    used = {name: (server.usage().cpu - before[name]) / chunks * 1e6 for name, server in servers.items()}
    late = steady(stamps, began, ramp)
    return {
        **used,
        "database": (world.database.cpu() - database) / chunks * 1e6,
        "p50": median(late),
        "p99": percentile(late, 0.99),
        "held": held,
    }


async def _close(sockets: Sequence[Socket]) -> None:
    for socket in sockets:
        await socket.close()


RELAY = Part(
    "relay",
    "Clients behind an edge",
    lambda sizes: {str(chats): f"{chats} chats, {chats * RATE:,.0f} chunks/s" for chats in sizes.relayed},
    (
        Figure("direct_p50", "clients at the owner: ms, median", 2),
        Figure("relayed_p50", "clients at the edge: ms, median", 2),
        Figure(
            "added",
            "the same chunk at the edge and at the owner: ms later, median",
            2,
            "≤ 1",
            lambda columns: all(figures["added"] <= 1 for figures in columns.values()),
        ),
        Figure("direct_cpu", "clients at the owner: µs CPU of the owner per chunk", 1),
        Figure("relayed_cpu", "clients at the edge: µs CPU of the owner per chunk", 1),
        Figure("edge_cpu", "µs CPU of the edge per chunk", 1),
        Figure(
            "share",
            "CPU of the edge ÷ that of the owner",
            2,
            "≤ 0.4",
            lambda columns: all(figures["share"] <= 0.4 for figures in columns.values()),
        ),
        Figure("relayed_held", "% of the rate held", 1),
    ),
    _relay,
)

# -- two nodes -------------------------------------------------------------------------------------------------------


async def _two(world: World, sizes: NodeSizes, number: int) -> Columns:
    found: Columns = {}
    for name in turned(["1", "2"], number):
        store = world.schema()
        nodes = [world.node(f"node-{index}", store) for index in range(int(name))]
        async with started(*nodes):
            stamps, chats = Stamps(), sizes.sizes.chats[0]
            sockets = await _spread(nodes, fresh(chats), stamps)
            servers = {f"node{index}": node for index, node in enumerate(nodes)}
            figures = await _paced(world, sizes, sockets, stamps, servers)
            figures["cpu"] = sum(figures.pop(each) for each in servers)
            await _close(sockets)
            sockets = await _spread(nodes, fresh(20), Stamps())
            each, began = min(25, sizes.sizes.tiny), time.perf_counter()
            await asyncio.gather(*(_turns(socket, each) for socket in sockets))
            figures["turns"] = 20 * each / (time.perf_counter() - began)
            await _close(sockets)
            found[name] = figures
    return found


async def _spread(nodes: Sequence[Server], names: Sequence[str], stamps: Stamps) -> list[Socket]:
    """Open a socket to each conversation, at each node in turn."""
    found = []
    for index, node in enumerate(nodes):
        found += await connect_many(node.port, names[index :: len(nodes)], stamps)
    return found


async def _turns(socket: Socket, count: int) -> None:
    for _ in range(count):
        await socket.ask(TINY)


TWO = Part(
    "two",
    "The same load on one node and on two",
    lambda sizes: {"1": "one node", "2": "two nodes"},
    (
        Figure("cpu", "100 chats at 50 chunks/s: µs CPU of all nodes per chunk", 1),
        Figure("database", "µs CPU of PostgreSQL per chunk", 1),
        Figure("p50", "ms, median", 2),
        Figure("p99", "ms, 99 of 100", 2),
        Figure("held", "% of the rate held", 1),
        Figure("turns", "20 chats: tiny turns/s", 0),
    ),
    _two,
    ratio=("2", "1"),
)
