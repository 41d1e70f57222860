"""Kill a server under load at random for as long as you like: `python -m tools.chaos --minutes 10`.

It is tests/chaos, for longer; `--seed` repeats the plan of a run that failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; fails when anything was lost, doubled or told wrongly."""
    given = _parser().parse_args(arguments)
    environment = {**os.environ, "CHAOS_SECONDS": str(given.minutes * 60)}
    if given.seed is not None:
        environment["CHAOS_SEED"] = str(given.seed)
    command = [sys.executable, "-m", "pytest", "-q", "tests/chaos", *(["--basetemp", given.keep] if given.keep else [])]
    print(f"killing for {given.minutes:g} minutes …", flush=True)
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, stdin=subprocess.DEVNULL).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="the plan of an earlier run")
    parser.add_argument("--keep", metavar="FOLDER", help="where to leave log, notes and what the server wrote")
    return parser


if __name__ == "__main__":
    sys.exit(main())
