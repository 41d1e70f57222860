"""PostgreSQL and several nodes: `make bench-nodes`, or a part of it.

    PARTS=one,relay SIZES=small make bench-nodes
    ROUNDS=1 PARTS=kill,stop make bench-nodes
    NICE=-10 make bench-nodes                            # before other programs on a busy machine, for who may

It starts a PostgreSQL of its own that flushes every commit. In full size, each table also goes into
docs/performance.md, unless OUT names another file.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg
import uvloop

from benchmarks.__main__ import SIZES as ROW_SIZES
from benchmarks.__main__ import chosen, go_before
from benchmarks.measures import combine
from benchmarks.nodes.costs import COMMITS, ONE, RELAY, TWO
from benchmarks.nodes.database import started
from benchmarks.nodes.failures import KILL, STOP
from benchmarks.nodes.idle import IDLE
from benchmarks.nodes.measures import Columns, NodeSizes, Part, World
from benchmarks.pages import put_part
from benchmarks.processes import ROOT

PARTS = {part.name: part for part in (ONE, COMMITS, RELAY, TWO, KILL, STOP, IDLE)}

SIZES = {
    "full": NodeSizes(ROW_SIZES["full"], (20, 100), (1, 20, 100), 6.0, 2.0, 10_000, 20.0, 1000, unloads=True),
    "small": NodeSizes(ROW_SIZES["small"], (20, 100), (1, 20, 100), 3.0, 2.0, 1_000, 10.0, 300, unloads=False),
    "tiny": NodeSizes(ROW_SIZES["tiny"], (2,), (2,), 3.0, 0.2, 3, 0.5, 3, unloads=False),
}
ROUNDS = {"full": 3, "small": 1, "tiny": 1}


def main() -> int:
    """Measure what the environment names; return 1 when a part lost data or failed."""
    parts, size = chosen("PARTS", PARTS), os.environ.get("SIZES", "full")
    go_before(os.environ.get("NICE"))
    failures, tables = list[str](), dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="bench-nodes-") as folder, started() as database:
        world = World(database, Path(folder))
        for part in parts:
            load = os.getloadavg()[0]
            try:
                columns = uvloop.run(measure(part, world, SIZES[size], _rounds(part, size)))
            except Exception as exc:  # noqa: BLE001 - the other parts are run, and it is told
                failures.append(f"{part.name}: {type(exc).__name__}: {exc}")
                print(f"  {failures[-1]}", flush=True)
                continue
            loads = f"load {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end; commit {_commit()}"
            tables[part.name] = f"{table(part, SIZES[size], columns)}\n\n{_rounds(part, size)} rounds; {loads}."
            print(f"\n{tables[part.name]}\n", flush=True)
            for figure in part.figures:
                if figure.is_met is not None and not figure.is_met(columns):
                    print(f"not yet: {part.title}, {figure.unit}: {figure.goal} was wanted", flush=True)
        tables["machine"] = _machine(asyncio.run(database.version()))
    print(f"\n{tables['machine']}")
    for sentence in failures:
        print(f"FAILED: {sentence}")
    if out := os.environ.get("OUT"):
        Path(out).write_text("\n\n".join(tables.values()) + "\n", encoding="utf-8")
    elif size == "full":
        for name, text in tables.items():
            put_part(f"nodes-{name}", text)
    return 1 if failures else 0


async def measure(part: Part, world: World, sizes: NodeSizes, rounds: int) -> Columns:
    """Run a part so many times; return the median of each figure."""
    runs: list[Columns] = []
    for number in range(rounds):
        runs.append(await part.run(world, sizes, number))
        for name, figures in runs[-1].items():
            said = "  ".join(f"{each} {value:,.4g}" for each, value in figures.items())
            print(f"  {part.name:8} {name:9} {said}  (load {os.getloadavg()[0]:.1f})", flush=True)
    return {name: combine([run[name] for run in runs]) for name in part.columns(sizes)}


def table(part: Part, sizes: NodeSizes, columns: Columns) -> str:
    """Return the table of a part as Markdown."""
    titles = part.columns(sizes)
    ratio = ["ratio"] if part.ratio else []
    has_goals = any(figure.goal for figure in part.figures)
    heads = [part.title, *titles.values(), *ratio, *(["goal"] if has_goals else [])]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for figure in part.figures:
        values = {name: columns[name].get(figure.name) for name in titles}
        cells = ["" if value is None else f"{value:,.{figure.digits}f}" for value in values.values()]
        if part.ratio:
            over, under = (values[name] for name in part.ratio)
            cells.append(f"{over / under:.2f}" if over and under else "")
        lines.append(f"| {' | '.join([figure.unit, *cells, *([figure.goal] if has_goals else [])])} |")
    return "\n".join(lines)


def _rounds(part: Part, size: str) -> int:
    return int(os.environ.get("ROUNDS", 1 if part is IDLE else ROUNDS[size]))


def _commit() -> str:
    asked = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], check=False, capture_output=True)
    return asked.stdout.decode().strip() or "unknown"


def _machine(postgres: str) -> str:
    return (
        f"{os.cpu_count()} cores for the load, the nodes and the database, Python {platform.python_version()}, "
        f"PostgreSQL {postgres}, asyncpg {asyncpg.__version__}, SQLite {sqlite3.sqlite_version}, "
        f"{platform.system()} {platform.release().split('-')[0]}."
    )


if __name__ == "__main__":
    sys.exit(main())
