"""Play seeds of the deterministic simulation, and show those that fail: `python -m tools.simulate --seeds 10000`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from everyword.testing.simulation import simulate

PROGRESS = 5.0
"""Seconds between two lines of progress."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the seeds; fails when one of them does."""
    given = _parser().parse_args(arguments)
    without = frozenset(filter(None, given.without.split(",")))
    failing: list[int] = []
    checks: Counter[str] = Counter()
    began = said = time.monotonic()
    for seed in range(given.first, given.first + given.seeds):
        run = simulate(seed, nodes=given.nodes, without=without)
        if given.trace:
            print(*run.trace, sep="\n")
        if run.problems:
            failing.append(seed)
            checks.update({check for check, _ in run.problems})
            if len(failing) <= given.show:
                print(run.report(given.last), end="\n\n", flush=True)
        if time.monotonic() - said > PROGRESS:
            said = time.monotonic()
            print(f"… seed {seed}, {len(failing)} failed, {(seed - given.first + 1) / (said - began):.0f} a second")
    seconds = time.monotonic() - began
    print(f"{given.seeds} seeds in {seconds:.1f} s, {len(failing)} failed {dict(checks) if checks else ''}".rstrip())
    if failing:
        print("failing seeds:", *failing)
    return 1 if failing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--without", default="", help="checks to pass over, with commas between them")
    parser.add_argument("--nodes", action="store_true", help="with two to four nodes that share a database")
    parser.add_argument("--trace", action="store_true", help="print every step of every seed")
    parser.add_argument("--last", type=int, default=60, help="how many steps of a failing seed to show")
    parser.add_argument("--show", type=int, default=3, help="how many failing seeds to show in full")
    return parser


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set of strings is chance, too
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tools.simulate", *sys.argv[1:]])
    sys.exit(main())
