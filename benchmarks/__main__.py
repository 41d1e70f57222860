"""Run the table: `make bench`, or a part of it.

    ROWS=flat,fanout SIZES=small SERVERS=everyword,stored make bench
    PROFILE=1 ROWS=400 SERVERS=everyword make bench      # a flame graph in benchmarks/profiles/
    SOURCE=HEAD BASE=HEAD~3 make bench                   # committed revisions: this one beside that one
    NICE=-10 make bench                                  # before other programs on a busy machine, for who may
    ROUNDS=1 make bench                                  # every row once, on a quiet machine or in a hurry

The whole table also goes into docs/performance.md and benchmarks/results.json; the figures of a part go where OUT says.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import uvloop

from benchmarks.measures import Figures, Row, Sizes, combine
from benchmarks.pages import put_part
from benchmarks.processes import PEER, SERVERS, Kind, Server, running, taken_from
from benchmarks.reference import PEER_ELSEWHERE
from benchmarks.rows import ROWS, warm_up
from benchmarks.table import Results, render, verdicts

HERE = Path(__file__).parent
T = TypeVar("T")

SIZES = {
    "full": Sizes(20_000, 5_000, 5, 2_000, 100, 10_000, 250, 300, 20, 20, 3, 3, rounds=3),
    "small": Sizes(5_000, 1_000, 2, 500, 100, 10_000, 100, 100, 5, 5, 1, 1),
    "tiny": Sizes(100, 100, 0.1, 10, 3, 100, 3, 5, 2, 2, 1, 1, chats=(2, 3), rest=0, ramp=0.1),
}


def main() -> int:
    """Measure what the environment names; return 1 when a row lost data or a server failed."""
    rows = chosen("ROWS", ROWS)
    sizes = SIZES[os.environ.get("SIZES", "full")]
    go_before(os.environ.get("NICE"))
    profiles = HERE / "profiles" if os.environ.get("PROFILE") else None
    began, failures = time.monotonic(), list[str]()
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, _database(chosen("SERVERS", SERVERS)):
        kinds = _kinds(Path(folder))
        for row in rows:
            runs: dict[str, list[Figures]] = {}
            rounds = _rounds(sizes) if row.wavers and profiles is None else 1
            for number in range(rounds):
                # Each begins somewhere else: a server's runs lie apart, and a bad minute hits one of them at most.
                first = number * len(kinds) // rounds
                for kind in kinds[first:] + kinds[:first]:
                    if row.name in kind.lacks:
                        continue
                    place = Path(folder) / f"{row.name}-{kind.name}-{number}"
                    try:
                        figures = measure(row, kind, sizes, place, profiles)
                    except Exception as exc:  # noqa: BLE001 - whatever it was, the other rows are run, and it is told
                        failures.append(f"{row.name} on {kind.name}: {type(exc).__name__}: {exc}")
                        print(f"  {failures[-1]}", flush=True)
                        continue
                    runs.setdefault(kind.name, []).append(figures)
                    said = "  ".join(f"{name} {value:,.4g}" for name, value in figures.items())
                    print(f"  {row.name:9} {kind.name:9} {said}", flush=True)
            results[row.name] = {name: combine(figures) for name, figures in runs.items()}
    _report(rows, {kind.name: kind.title for kind in kinds}, results, failures, time.monotonic() - began)
    return 1 if failures else 0


@contextmanager
def _database(kinds: Sequence[Kind]) -> Iterator[None]:
    """Have a PostgreSQL for the servers that need one: the one of `BENCH_POSTGRES`, or one of our own that flushes."""
    if not any(kind.is_postgres for kind in kinds) or "BENCH_POSTGRES" in os.environ:
        yield
        return
    from tests.postgres.server import OwnPostgres

    server = OwnPostgres.started(durable=True)
    os.environ["BENCH_POSTGRES"] = server.url
    try:
        yield
    finally:
        del os.environ["BENCH_POSTGRES"]
        server.close()


def _rounds(sizes: Sizes) -> int:
    return int(os.environ.get("ROUNDS", sizes.rounds))


def measure(row: Row, kind: Kind, sizes: Sizes, folder: Path, profiles: Path | None = None) -> Figures:
    """Run one row against one server, started for it; the median of a few runs when the row is short."""
    profile = None
    if profiles is not None and kind.name != "peer":
        profiles.mkdir(exist_ok=True)
        profile = profiles / f"{row.name}-{kind.name}.svg"
    with running(kind, folder, profile=profile) as server:
        return uvloop.run(_measure(row, server, sizes))


async def _measure(row: Row, server: Server, sizes: Sizes) -> Figures:
    await warm_up(server)
    gc.collect()
    gc.disable()  # the client's pauses would show as the server's
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        figures = combine([await row.run(server, sizes) for _ in range(sizes.repeats if row.repeats else 1)])
    finally:
        gc.enable()
    # The load is not what is measured as long as it has time left.
    return {**figures, "client": (time.process_time() - cpu) / (time.perf_counter() - wall) * 100}


def _kinds(folder: Path) -> list[Kind]:
    """Return the servers to measure; everyword out of other revisions, if the environment says so."""
    kinds = [kind for kind in chosen("SERVERS", SERVERS) if kind.name != "peer" or _has_peer()]
    if revision := os.environ.get("SOURCE"):
        source = taken_from(SERVERS["everyword"], revision, folder / "source")
        kinds = [source if kind.name == "everyword" else kind for kind in kinds]
    if revision := os.environ.get("BASE"):
        kinds.insert(1, taken_from(SERVERS["everyword"], revision, folder / "base", name="base"))
    return kinds


def _report(rows: Sequence[Row], servers: dict[str, str], results: Results, failures: list[str], took: float) -> None:
    elsewhere = {} if "peer" in servers else PEER_ELSEWHERE
    shown = {**servers, "peer": SERVERS["peer"].title} if elsewhere else servers
    table = render(rows, shown, results, elsewhere)
    if elsewhere:
        table += "\n\n\\* of another run, on another day"
    table += f"\n\n{_machine()}; load at the end {os.getloadavg()[0]:.1f}; took {took:.0f} s."
    print(f"\n{table}\n")
    for sentence in verdicts(rows, results, elsewhere):
        print(f"not yet: {sentence}")
    for sentence in failures:
        print(f"FAILED: {sentence}")
    report = {"machine": _machine(), "servers": shown, "results": results, "elsewhere": elsewhere}
    is_whole = not any(os.environ.get(name) for name in ("ROWS", "SERVERS", "SIZES", "SOURCE", "BASE"))
    if is_whole and not failures:
        put_part("table", table)
    if out := os.environ.get("OUT") or (HERE / "results.json" if is_whole and not failures else None):
        Path(out).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def go_before(nice: str | None) -> None:
    if nice is not None:
        os.nice(int(nice))
        with suppress(OSError):  # Linux weighs sessions against each other, and niceness counts only within one
            Path("/proc/self/autogroup").write_text(nice)


def chosen(variable: str, known: dict[str, T]) -> list[T]:
    names = [name for name in os.environ.get(variable, "").split(",") if name]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"unable to run {', '.join(unknown)}; {variable} may name {', '.join(known)}")
    return [known[name] for name in names] if names else list(known.values())


def _has_peer() -> bool:
    return (PEER / "node_modules" / ".bench" / "worker.js").exists()


def _machine() -> str:
    is_systems = sys.base_prefix in ("/usr", "/usr/local")
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}{' of the system' if is_systems else ''}, "
        f"SQLite {sqlite3.sqlite_version}, "
        f"{platform.system()} {platform.release().split('-')[0]}"
    )


if __name__ == "__main__":
    sys.exit(main())
