"""What clients at another node notice when the owner of their conversations is killed, or told to stop."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median

from benchmarks.client import Socket, Stamps, connect, question
from benchmarks.measures import Figures
from benchmarks.nodes.costs import chunks_of, started, turned
from benchmarks.nodes.measures import Columns, Figure, NodeSizes, Part, World
from benchmarks.processes import Server
from benchmarks.rows import fresh
from benchmarks.servers.source import Ask

__all__ = ["KILL", "STOP"]

PACE = 20.0
"""Chunks per second of one answer: a pause that is shorter than 50 ms cannot be told from its pace."""
GRACE = "1"
"""Seconds that a node has to finish its turns when it is told to stop; these turns take longer."""
PATIENCE = 60.0


@dataclass(frozen=True)
class _Watched:
    """A turn that streams at the owner, and the socket at the edge that watches it."""

    name: str
    request: str
    socket: Socket
    stamps: Stamps

    def first_after(self, at: int) -> int | None:
        """Return when the first chunk came that was made after `at`; microseconds."""
        pairs = zip(self.stamps.made, self.stamps.received, strict=True)
        return next((received for made, received in pairs if made > at), None)

    def longest_pause(self, since: int) -> float:
        """Return the longest time between two chunks since then, in seconds."""
        before = [each for each in self.stamps.received if each <= since]
        times = [*before[-1:], *(each for each in self.stamps.received if each > since)]
        return max((later - earlier) / 1e6 for earlier, later in pairwise(times))


Losing = Callable[[Server, Server, Sequence[_Watched]], Awaitable[Figures]]


async def _lose(world: World, sizes: NodeSizes, turns: int, losing: Losing) -> Figures:
    """Open so many turns at the owner, watch them at the edge, lose the owner; check that no chunk is lost."""
    store, lease = world.schema(), str(sizes.lease)
    owner, edge = (world.node(name, store, EVERYWORD_NODE_LEASE=lease, BENCH_GRACE=GRACE) for name in ("owner", "edge"))
    async with started(owner, edge):
        watched = [await _watch(owner, edge, name) for name in fresh(turns)]
        await asyncio.sleep(sizes.streaming)
        figures = await losing(owner, edge, watched)
        await asyncio.sleep(0.5)  # some more chunks of the next attempt
        figures["lost"] = sum([await _missing(edge, each) for each in watched])
        return figures


async def _watch(owner: Server, edge: Server, name: str) -> _Watched:
    asking = await connect(owner.port, name)
    watching = await connect(edge.port, name, stamps := Stamps(), keeps=True)
    frame = question(Ask(chunks=1_000_000, rate=PACE))
    asking.send(frame)
    return _Watched(name, str(frame["id"]), watching, stamps)


async def _missing(edge: Server, watched: _Watched) -> int:
    """End the turn; return how many chunks the client saw that are not stored, or saw twice."""
    ended = watched.socket.ending()
    watched.socket.send({"type": "cf_agent_chat_request_cancel", "id": watched.request})
    async with asyncio.timeout(PATIENCE):
        await ended
    seen = chunks_of(watched.socket)
    stored = await asyncio.to_thread(edge.request, "GET", f"/agents/chat/{watched.name}/get-messages")
    await watched.socket.close()
    kept = {piece[:16] for piece in stored.split(b"@")[1:]}
    return len(set(seen) - kept) + len(seen) - len(set(seen))


async def _all_after(watched: Sequence[_Watched], at: int) -> list[int]:
    """Wait until every client has a chunk that was made after `at`; return when each had it."""
    async with asyncio.timeout(PATIENCE):
        while any(not each.stamps.made or each.stamps.made[-1] <= at for each in watched):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return sorted(found for each in watched if (found := each.first_after(at)) is not None)


def _now() -> int:
    return time.time_ns() // 1000


def _first_made(watched: _Watched, after: int) -> int:
    return next(made for made in watched.stamps.made if made > after)


def _declared_gone(edge: Server) -> int:
    """Return when a node logged that another one is gone, in microseconds since 1970."""
    said = (edge.folder / "server.log").read_text(errors="replace")
    line = next(line for line in said.splitlines() if "is gone: its lease is over" in line)
    return int(datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() * 1e6)


async def _kill(world: World, sizes: NodeSizes, number: int) -> Columns:
    async def losing(owner: Server, edge: Server, watched: Sequence[_Watched]) -> Figures:
        owner.stop(by=signal.SIGKILL)
        at, cpu, database = _now(), edge.usage().cpu, world.database.cpu()
        back = await _all_after(watched, at)
        cpu, database = edge.usage().cpu - cpu, world.database.cpu() - database
        gone = _declared_gone(edge)
        return {
            "first": (back[0] - at) / 1e6,
            "last": (back[-1] - at) / 1e6,
            "leases": (back[-1] - at) / 1e6 / sizes.lease,
            "begun": (min(_first_made(each, at) for each in watched) - gone) / 1000,
            "all": (max(_first_made(each, at) for each in watched) - gone) / 1000,
            "shown": (back[-1] - gone) / 1000,
            "turn": (back[-1] - gone) / 1000 / len(watched),
            "cpu": cpu / len(watched) * 1000,
            "database": database / len(watched) * 1000,
        }

    return {
        turns: await _lose(world, sizes, int(turns), losing)
        for turns in turned([str(each) for each in sizes.turns], number)
    }


async def _stop(world: World, sizes: NodeSizes, number: int) -> Columns:
    async def losing(owner: Server, edge: Server, watched: Sequence[_Watched]) -> Figures:
        at = _now()
        await asyncio.to_thread(owner.stop)
        ended = _now()
        await _all_after(watched, ended)
        pauses = [each.longest_pause(at) for each in watched]
        return {"median": median(pauses), "longest": max(pauses), "ended": (ended - at) / 1e6}

    return {
        turns: await _lose(world, sizes, int(turns), losing)
        for turns in turned([str(each) for each in sizes.turns], number)
    }


def _columns(sizes: NodeSizes) -> dict[str, str]:
    return {str(turns): f"{turns} open turn{'s' if turns > 1 else ''}" for turns in sizes.turns}


KILL = Part(
    "kill",
    "The owner is killed with `kill -9`",
    _columns,
    (
        Figure("first", "s until the first client sees more", 2),
        Figure("last", "s until every client sees more", 2),
        Figure("leases", "the same in leases", 2, "≤ 1.3, and 1 s"),
        Figure("begun", "after the node was declared gone: ms until the first turn goes on"),
        Figure("all", "ms until every turn goes on"),
        Figure("shown", "ms until every client sees it"),
        Figure("turn", "the same per turn", 1, "≤ 2"),
        Figure("cpu", "ms CPU of the next owner per turn"),
        Figure("database", "ms CPU of PostgreSQL per turn"),
        Figure("lost", "chunks lost or shown twice", 0, "0"),
    ),
    _kill,
)
STOP = Part(
    "stop",
    "The owner is told to stop (SIGTERM), its turns outlive their grace of 1 s",
    _columns,
    (
        Figure("median", "longest pause of a client: s, median", 2),
        Figure(
            "longest",
            "s, of all clients",
            2,
            "< 1",
            lambda columns: all(figures["longest"] < 1 for figures in columns.values()),
        ),
        Figure("ended", "s until the process has ended", 2),
        Figure("lost", "chunks lost or shown twice", 0, "0"),
    ),
    _stop,
)
