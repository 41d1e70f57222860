"""How the log is laid out on disk, and what an append costs: `python benchmarks/bench_log.py`; about 25 s of CPU.

The first table compares ways to keep many agents' events in one SQLite file: how fast they are written, how many
bytes go to the disk for each, and how long it takes to read one agent's answer back. The second is the real
store under the load of many agents that speak at once. Ratios matter; absolute figures are this machine's.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from everyword.ids import AgentId, Millis, Seq, TurnId
from everyword.log.base import Batch, Entry
from everyword.log.sqlite.connection import Durability
from everyword.log.sqlite.store import SqliteLog

BODY = b'{"t":"chunk","turn":3,"attempt":1,"index":%d,"body":{"type":"text-delta","id":"txt-0","delta":"some words "}}'
NOW = 1_763_240_000_000
GAP = 16_384
MARK_EVERY = 256

EVENT = "CREATE TABLE event (id INTEGER PRIMARY KEY, agent INT, seq INT, at INT, kind TEXT, turn INT, {}body BLOB)"
MARK = "CREATE TABLE mark (agent INT, seq INT, id INT, PRIMARY KEY (agent, seq)) WITHOUT ROWID"
BY_KEY = "SELECT seq, at, kind, turn, body FROM event WHERE agent = ? AND seq > 0 ORDER BY seq"
WALK = """
  WITH RECURSIVE step (id, back, seq) AS (
    SELECT id, back, seq FROM event WHERE id = ?2 AND agent = ?1
    UNION ALL
    SELECT e.id, e.back, e.seq FROM step s CROSS JOIN event e ON e.id = s.id - s.back
    WHERE s.back > 0 AND s.seq > ?3 + 1 AND e.agent = ?1)
  SELECT e.seq, e.at, e.kind, e.turn, e.body FROM step s CROSS JOIN event e ON e.id = s.id"""


class Layout:
    """One way to keep events. Subclasses say what a row looks like and how an agent's rows are found."""

    name = "keyed by (agent, seq)"
    schema: tuple[str, ...] = (
        """CREATE TABLE event (agent INT, seq INT, at INT, kind TEXT, turn INT, body BLOB, PRIMARY KEY (agent, seq))
           WITHOUT ROWID""",
    )
    insert = "INSERT INTO event VALUES (?,?,?,?,?,?)"

    def __init__(self, connection: sqlite3.Connection, agents: int) -> None:
        self.connection = connection
        self.marks: list[tuple[int, int, int]] = []
        self.latest = [0] * agents
        for statement in self.schema:
            connection.execute(statement)

    def row(self, agent: int, seq: int, arrival: int, body: bytes) -> tuple[object, ...]:
        return agent, seq, NOW + arrival, "chunk", 3, body

    def read(self, agent: int, head: int) -> int:
        return len(self.connection.execute(BY_KEY, (agent,)).fetchall())

    def commit(self, rows: list[tuple[object, ...]]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(self.insert, rows)
        if self.marks:
            self.connection.executemany("INSERT INTO mark VALUES (?,?,?)", self.marks)
            self.marks.clear()
        self.connection.execute("COMMIT")


class Indexed(Layout):
    name = "arrival, index (agent, seq)"
    schema = (EVENT.format(""), "CREATE INDEX event_agent ON event (agent, seq)")
    insert = "INSERT INTO event VALUES (?,?,?,?,?,?,?)"

    def row(self, agent: int, seq: int, arrival: int, body: bytes) -> tuple[object, ...]:
        return arrival, agent, seq, NOW + arrival, "chunk", 3, body


class Packed(Layout):
    """One row per batch; an agent that streams has batches of one."""

    name = "a row per batch, index"
    schema = (
        "CREATE TABLE pack (id INTEGER PRIMARY KEY, agent INT, first INT, body BLOB)",
        "CREATE INDEX pack_agent ON pack (agent, first)",
    )
    insert = "INSERT INTO pack VALUES (?,?,?,?)"

    def row(self, agent: int, seq: int, arrival: int, body: bytes) -> tuple[object, ...]:
        return arrival, agent, seq, body

    def read(self, agent: int, head: int) -> int:
        found = "SELECT first, body FROM pack WHERE agent = ? AND first > 0 ORDER BY first"
        return len(self.connection.execute(found, (agent,)).fetchall())


class Scanned(Indexed):
    """No index: a mark every so many arrivals, and everything between two marks is looked through."""

    name = "arrival, scan between marks"
    schema = (EVENT.format(""), MARK)

    def row(self, agent: int, seq: int, arrival: int, body: bytes) -> tuple[object, ...]:
        if not self.latest[agent] or arrival - self.latest[agent] > GAP:
            self.latest[agent] = arrival
            self.marks.append((agent, seq, arrival))
        return super().row(agent, seq, arrival, body)

    def read(self, agent: int, head: int) -> int:
        found = "SELECT seq, at, kind, turn, body FROM event WHERE id BETWEEN ? AND ? AND agent = ? AND seq >= ?"
        marks = self.connection.execute("SELECT seq, id FROM mark WHERE agent = ? ORDER BY seq", (agent,)).fetchall()
        ends = [arrival - 1 for _, arrival in marks[1:]] + [marks[-1][1] + GAP]
        spans = zip(marks, ends, strict=True)
        return sum(len(self.connection.execute(found, (m[1], end, agent, m[0])).fetchall()) for m, end in spans)


class Chained(Layout):
    """No index: each row says how far back the agent's row before it is. This is what the store does."""

    name = "arrival, chain (ours)"
    schema = (EVENT.format("back INT, "), MARK)
    insert = "INSERT INTO event VALUES (?,?,?,?,?,?,?,?)"

    def row(self, agent: int, seq: int, arrival: int, body: bytes) -> tuple[object, ...]:
        before, self.latest[agent] = self.latest[agent], arrival
        if not seq % MARK_EVERY:
            self.marks.append((agent, seq, arrival))
        return arrival, agent, seq, NOW + arrival, "chunk", 3, arrival - before if before else 0, body

    def read(self, agent: int, head: int) -> int:
        marks = self.connection.execute("SELECT seq, id FROM mark WHERE agent = ? ORDER BY seq", (agent,)).fetchall()
        entries = [(0, 0), *marks, (head, self.latest[agent])]
        pairs = [(low, entry) for low, entry in itertools.pairwise(entries) if entry[0] > low[0]]
        return sum(len(self.connection.execute(WALK, (agent, at, low[0])).fetchall()) for low, (_, at) in pairs)


Figures = tuple[float, float, float, float]


def arrivals(agents: int, each: int) -> Iterator[int]:
    """Yield whose event comes next: all speak equally fast, in no fixed order."""
    chance = random.Random(1)
    for _ in range(each):
        order = list(range(agents))
        chance.shuffle(order)
        yield from order


def bytes_written() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["write_bytes"])


def measure(kind: type[Layout], folder: Path, agents: int, each: int, group: int) -> Figures:
    """Return rows/s, CPU µs and bytes to the disk per row, and CPU ms to read one agent's rows (cached)."""
    path = folder / f"{kind.__name__}-{agents}.db"
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -16384"):
        connection.execute(f"PRAGMA {pragma}")
    layout = kind(connection, agents)
    heads, order, arrival = [0] * agents, arrivals(agents, each), 0
    before, start, cpu = bytes_written(), time.perf_counter(), time.thread_time()
    while agents_now := list(itertools.islice(order, group)):
        rows = []
        for agent in agents_now:
            heads[agent] += 1
            arrival += 1
            rows.append(layout.row(agent, heads[agent], arrival, BODY % heads[agent]))
        layout.commit(rows)
    elapsed, cpu = time.perf_counter() - start, time.thread_time() - cpu
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    written, count = bytes_written() - before, agents * each
    times = []
    for _ in range(5):
        begin = time.thread_time()
        assert layout.read(agents // 2, each) == each
        times.append(time.thread_time() - begin)
    connection.close()
    return count / elapsed, cpu / count * 1e6, written / count, min(times) * 1000


def compare(folder: Path, agents: int, each: int, group: int) -> None:
    print(f"\n{agents} agents × {each} chunks, {group} per commit; in brackets: times ours")
    titles = ("rows/s", "CPU µs/row", "disk B/row", f"read {each}: ms")
    print(f"{'layout':30}", *(f"{title:>17}" for title in titles))
    ours: Figures | None = None
    for kind in (Chained, Indexed, Packed, Scanned, Layout):
        found = measure(kind, folder, agents, each, group)
        ours = ours or found
        cells = [
            f"{value:,.{digits}f} ({value / base:.2f})"
            for value, base, digits in zip(found, ours, (0, 1, 0, 1), strict=True)
        ]
        print(f"{kind.name:30}", *(f"{cell:>17}" for cell in cells))


async def speak(store: SqliteLog, agent: AgentId, delay: float, until: float, rate: int, times: list[float]) -> None:
    """Append one chunk at a time, `rate` per second, as an agent whose model streams."""
    loop = asyncio.get_running_loop()
    activation = await store.activate(agent)
    await asyncio.sleep(delay)
    due, seq = loop.time(), activation.head
    while due < until:
        seq = Seq(seq + 1)
        batch = Batch(agent, activation.epoch, seq, Millis(NOW), (Entry("chunk", TurnId(3), BODY % seq),))
        begin = time.perf_counter()
        await store.append([batch])[0]
        times.append(time.perf_counter() - begin)
        due += 1 / rate
        await asyncio.sleep(max(due - loop.time(), 0))


async def load(folder: Path, durability: Durability, agents: int, rate: int, seconds: float) -> None:
    store = SqliteLog(folder / f"{durability}-{agents}.db", durability=durability)
    await store.open()
    times: list[float] = []
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    cpu, on_loop, start = time.process_time(), time.thread_time(), time.perf_counter()
    ids = [AgentId(f"chat/{number}") for number in range(agents)]
    delays = [number / agents / rate for number in range(agents)]
    await asyncio.gather(
        *(speak(store, each, delay, until, rate, times) for each, delay in zip(ids, delays, strict=True))
    )
    cpu, on_loop, elapsed = time.process_time() - cpu, time.thread_time() - on_loop, time.perf_counter() - start
    begin = time.perf_counter()
    first = await store.read(ids[0], Seq(0), 10_000)
    read = (time.perf_counter() - begin) * 1000
    await store.aclose()
    times.sort()
    p50, p99, p999 = (times[int(len(times) * part)] * 1000 for part in (0.5, 0.99, 0.999))
    micros = 1e6 / len(times)
    print(
        f"{durability:8} {agents:5} × {rate:<5} {len(times) / elapsed:8,.0f} {p50:8.2f} {p99:8.2f} {p999:8.2f} "
        f"{on_loop * micros:8.0f} {cpu * micros:8.0f} {len(first):7} in {read:.1f} ms"
    )


async def flat_out(folder: Path, agents: int, each: int, size: int) -> None:
    """Append batches of `size` chunks without a pause."""
    store = SqliteLog(folder / f"flat-{size}.db")
    await store.open()

    async def run(agent: AgentId) -> None:
        activation = await store.activate(agent)
        for first in range(1, each + 1, size):
            entries = [Entry("chunk", TurnId(3), BODY % index) for index in range(size)]
            await store.append([Batch(agent, activation.epoch, Seq(first), Millis(NOW), entries)])[0]

    start = time.perf_counter()
    await asyncio.gather(*(run(AgentId(f"chat/{number}")) for number in range(agents)))
    rate = agents * each / (time.perf_counter() - start)
    await store.aclose()
    print(f"flat out, {agents} agents, batches of {size}: {rate:,.0f} chunks/s")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
        compare(folder, agents=100, each=2000, group=20)
        compare(folder, agents=1000, each=60, group=50)
        print("\nthe store: agents × chunks/s of each; times in ms from append to acknowledgement, CPU in µs per chunk")
        print(
            f"{'':22} {'chunks/s':>9} {'p50':>8} {'p99':>8} {'p99.9':>8} {'loop':>8} {'CPU':>8}   read one agent back"
        )
        for durability, agents in (("process", 1), ("process", 100), ("process", 400), ("power", 1), ("power", 100)):
            asyncio.run(load(folder, durability, agents, rate=50, seconds=2))  # type: ignore[arg-type]
        for size in (1, 10):
            asyncio.run(flat_out(folder, agents=50, each=400, size=size))
    return 0


if __name__ == "__main__":
    sys.exit(main())
