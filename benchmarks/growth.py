"""What things cost when a store has grown: old chunks, stored conversations, long streams, idle agents.

    python -m benchmarks.growth              # 100,000 conversations, 10 million chunks: some minutes, 4 GB of disk
    SIZE=small python -m benchmarks.growth   # a hundredth of it

The server is a real one on the grown file, asked over sockets. Costs are CPU, which other programs disturb least.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median

import msgspec
import uvloop

from benchmarks import rows
from benchmarks.__main__ import SIZES
from benchmarks.client import connect, connect_many
from benchmarks.filling import CHUNKS, DAY, fill, prune, record
from benchmarks.measures import Figures, Sizes
from benchmarks.pages import put_part
from benchmarks.processes import SERVERS, Server
from benchmarks.servers.source import Ask

CONVERSATIONS = {"full": 100_000, "small": 1_000, "tiny": 20}
IDLE = {"full": 10_000, "small": 300, "tiny": 5}
STREAMS = {"full": (1_000, 10_000, 100_000), "small": (1_000, 10_000), "tiny": (100, 1_000)}
VISITS = 200
"""Stored conversations that are visited."""
RESTING = 20.0
"""Seconds for which a server with idle agents is watched: as long as uvicorn takes between two pings of a socket."""
PRUNED = 100_000
"""Chunks that retention deletes while it is measured."""


_lines: list[str] = []


def say(line: str) -> None:
    """Print a line of a table, and keep it for the page."""
    print(line, flush=True)
    _lines.append(line)


def main() -> int:
    size = os.environ.get("SIZE", "full")
    os.environ["BENCH_RETENTION_DAYS"] = "30"  # the server leaves what is old; retention is measured by itself
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        _stored(Path(folder) / "stored", CONVERSATIONS[size], size)
        _retention(Path(folder) / "retention", CONVERSATIONS[size] // 10, size)
        os.environ.pop("BENCH_RETENTION_DAYS")
        _streams(Path(folder) / "streams", STREAMS[size])
        _idle(Path(folder) / "idle", IDLE[size], size)
    if size == "full":
        put_part("growth", "\n".join(_lines))
    return 0


# -- a store that has grown ------------------------------------------------------------------------------------------


def _stored(folder: Path, conversations: int, size: str) -> None:
    folder.mkdir()
    path = folder / "filled.db"
    now = round(time.time() * 1000)
    old = asyncio.run(record(now - 3 * DAY))
    say(
        "| stored conversations | chunks | file MB | start s | memory MB | µs CPU per chunk | p50 ms | bytes per chunk "
        "| open a stored one ms | get-messages ms | a turn in it ms CPU | pruned chunks/s | µs CPU per pruned chunk |"
    )
    say("|---:|" + "---:|" * 12)
    filled = 0
    for part in (0, 10, 100):
        count = conversations * part // 100
        took = asyncio.run(fill(path, range(filled, count), old))
        print(f"<!-- filled in {took:.0f} s -->", file=sys.stderr)
        shutil.copy(path, folder / "bench.db")  # what is measured in it is not left for the next
        found = _on_file(folder, range(filled, count), size)
        (folder / "bench.db").unlink()
        filled = count
        pruned = asyncio.run(prune(path, now - DAY, PRUNED))
        cells = [f"{count:,}", f"{count * CHUNKS:,}", f"{path.stat().st_size / 1e6:,.0f}"]
        names = ("start", "memory", "cpu", "p50", "disk", "open", "get", "turn")
        cells += [f"{found[name]:,.2f}" if name in found else "" for name in names]
        cells += [f"{pruned[0] / pruned[1]:,.0f}", f"{pruned[2] / pruned[0] * 1e6:.1f}"] if pruned[0] else ["", ""]
        say(f"| {' | '.join(cells)} |")


def _on_file(folder: Path, stored: range, size: str) -> Figures:
    server = Server(SERVERS["everyword"], folder)
    began = time.monotonic()
    server.start()
    started = time.monotonic() - began
    try:
        found = uvloop.run(_visit(server, stored, size))
    finally:
        server.stop()
    return {"start": started, **found}


async def _visit(server: Server, stored: range, size: str) -> Figures:
    await rows.warm_up(server)
    memory = server.usage().memory / 1e6
    figures = await rows.chats100(server, _paced(size))
    numbers = random.Random(7).sample(stored, min(VISITS, len(stored)))
    opened, got, turned = [], [], []
    for number in numbers:
        began = time.perf_counter()
        body = server.request("GET", f"/agents/chat/stored{number}/get-messages")
        got.append(time.perf_counter() - began)
        if len(msgspec.json.decode(body)) != 2:
            raise RuntimeError(f"the stored conversation {number} does not have its 2 messages")
        began = time.perf_counter()
        socket = await connect(server.port, f"stored{number}")
        opened.append(time.perf_counter() - began)
        before = server.usage()
        await socket.ask(Ask(chunks=3))
        turned.append(server.usage().since(before).cpu)
        await socket.close()
    found = {"open": opened, "get": got, "turn": turned}
    return {**figures, "memory": memory, **{name: median(each) * 1000 for name, each in found.items() if each}}


def _paced(size: str) -> Sizes:
    """Return a load that leaves the machine idle most of the time, so that each chunk is a batch of its own."""
    return replace(SIZES["small"], seconds=1 if size == "tiny" else 6, chats=(20, 20))


def _retention(folder: Path, conversations: int, size: str) -> None:
    """Let a server delete what is old while it serves: what that does to its clients, and how far it gets."""
    say("\n| retention at work | µs CPU per chunk | p50 ms | p99 ms | old chunks before | after |")
    say("|---|---:|---:|---:|---:|---:|")
    folder.mkdir()
    path, now = folder / "bench.db", round(time.time() * 1000)
    asyncio.run(fill(path, range(conversations), asyncio.run(record(now - 3 * DAY))))
    for title, days in (("nothing is old enough", 30), ("all that is stored is too old", 1)):
        os.environ["BENCH_RETENTION_DAYS"] = str(days)
        before = _old_chunks(path, now - DAY)
        server = Server(SERVERS["everyword"], folder)
        server.start()
        try:
            found = uvloop.run(rows.chats100(server, replace(_paced(size), seconds=6)))
        finally:
            server.stop()
        cells = [title, f"{found['cpu']:.1f}", f"{found['p50']:.2f}", f"{found['p99']:.2f}"]
        say(f"| {' | '.join([*cells, f'{before:,}', f'{_old_chunks(path, now - DAY):,}'])} |")


def _old_chunks(path: Path, before: int) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT count(*) + coalesce(sum(more), 0) FROM event WHERE kind = 'chunk' AND at < ?", (before,)
        )
        return int(found.fetchone()[0])


# -- long streams, idle agents ---------------------------------------------------------------------------------------


def _streams(folder: Path, lengths: tuple[int, ...]) -> None:
    say("\n| chunks of one stream | µs CPU per chunk | chunks/s | to come back in the middle ms | ms CPU |")
    say("|---:|---:|---:|---:|---:|")
    folder.mkdir()
    server = Server(SERVERS["everyword"], folder)
    server.start()
    try:
        for length in lengths:
            flat, back = uvloop.run(_stream(server, length))
            cells = [f"{length:,}", f"{flat['cpu']:.1f}", f"{flat['rate']:,.0f}"]
            cells += [f"{back['time']:.1f}", f"{back['cpu']:.1f}"]
            say(f"| {' | '.join(cells)} |")
    finally:
        server.stop()


async def _stream(server: Server, length: int) -> tuple[Figures, Figures]:
    await rows.warm_up(server)
    sizes = replace(SIZES["small"], flat=length, replay=length)
    return await rows.flat(server, sizes), await rows.replay(server, sizes)


def _idle(folder: Path, most: int, size: str) -> None:
    say("\n| idle agents, each with a socket | memory MB | % of a core at rest | µs CPU per chunk besides | p50 ms |")
    say("|---:|---:|---:|---:|---:|")
    folder.mkdir()
    server = Server(SERVERS["everyword"], folder)
    server.start()
    try:
        for count in (0, most):
            found = uvloop.run(_among(server, count, size))
            cells = [f"{count:,}", f"{found['memory']:,.0f}", f"{found['rest'] * 100:.1f}"]
            cells += [f"{found['cpu']:.1f}", f"{found['p50']:.2f}"]
            say(f"| {' | '.join(cells)} |")
    finally:
        server.stop()


async def _among(server: Server, idle: int, size: str) -> Figures:
    """Measure the load among idle agents. Their sockets' keep-alive costs the same without it, and is taken off."""
    await rows.warm_up(server)
    sockets = await connect_many(server.port, rows.fresh(idle))
    sizes, before = _paced(size), server.usage()
    await asyncio.sleep(RESTING if idle else RESTING / 5)
    rest = server.usage().since(before).cpu / (RESTING if idle else RESTING / 5)
    figures = await rows.chats100(server, sizes)
    seconds = sizes.seconds + 2 * sizes.ramp
    kept_alive = rest * seconds / (sizes.chats[0] * seconds * rows.RATE) * 1e6
    for socket in sockets:
        await socket.close()
    return {**figures, "memory": before.memory / 1e6, "rest": rest, "cpu": figures["cpu"] - kept_alive}


if __name__ == "__main__":
    sys.exit(main())
