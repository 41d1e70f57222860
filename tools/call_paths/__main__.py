"""Print the table of walks, or the call tree of one: `python -m tools.call_paths [--tree NAME] [--compare COMMIT]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .recorder import Trace
from .walks import WALKS, measure

ROOT: Final = Path(__file__).resolve().parents[2]
ROUNDS: Final = 7
COLUMNS: Final = ("calls", "functions", "modules", "module changes")

Counts = Mapping[str, Sequence[int]]
"""For each walk, its numbers in the order of `COLUMNS`."""


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.call_paths", description=__doc__)
    names = [walk.name for walk in WALKS]
    parser.add_argument("--tree", choices=names, help="print the call tree of this walk instead of the table")
    parser.add_argument("--compare", metavar="COMMIT", help="measure this commit as well, in a temporary worktree")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each walk is taken ({ROUNDS})")
    parser.add_argument("--package", default="everyword", help="the package to measure; another name in old commits")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    chosen = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(chosen.package, Path(folder), chosen.rounds)
    typical = {name: most_frequent(traces) for name, traces in found.items()}
    if chosen.tree:
        print("\n".join(typical[chosen.tree].tree()))
        return 0
    counts = {name: counts_of(trace) for name, trace in typical.items()}
    before = _counts_at(chosen.compare, chosen.rounds) if chosen.compare else None
    print(json.dumps(counts) if chosen.json else "\n".join(table(counts, before)))
    return 0


def counts_of(trace: Trace) -> tuple[int, ...]:
    return trace.calls, trace.functions, trace.modules, trace.module_changes


def most_frequent(traces: Sequence[Trace]) -> Trace:
    """Return the trace whose counts occur most often; of several such, the shortest."""
    often = Counter(counts_of(trace) for trace in traces)
    return min(traces, key=lambda trace: (-often[counts_of(trace)], counts_of(trace)))


def table(counts: Counts, before: Counts | None = None) -> Iterator[str]:
    """Return a Markdown table; with `before`, each cell reads "before → now"."""
    yield f"| walk (Python {platform.python_version()}) | {' | '.join(COLUMNS)} |"
    yield "|---|" + "---:|" * len(COLUMNS)
    for walk in WALKS:
        cells = [f"{now:,}" for now in counts[walk.name]]
        if before is not None:
            cells = [f"{then:,} → {cell}" for then, cell in zip(before[walk.name], cells, strict=True)]
        yield f"| {walk.title} | {' | '.join(cells)} |"


def _counts_at(commit: str, rounds: int) -> Counts:
    """Measure another commit with this tool."""
    with _checkout(commit) as tree:
        (package,) = (each.parent.name for each in (tree / "src").glob("*/__init__.py"))
        command = [sys.executable, "-m", "tools.call_paths", "--package", package, "--rounds", str(rounds), "--json"]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
