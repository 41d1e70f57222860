"""Attack real servers with frames, requests, kills, stops and sockets: `python -m tools.attack`.

Prints one table: what was tried, how often, and what went wrong. Exits with 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from everyword import __version__
from tools.attack.findings import SHOWN, Findings, render
from tools.attack.frames import attack_frames
from tools.attack.lives import attack_with_kills, attack_with_stops
from tools.attack.requests import attack_doors, attack_requests
from tools.attack.sockets import attack_with_sockets

ATTACKS = ("frames", "requests", "doors", "kills", "stops", "sockets")
FAULTS = {
    "answer": "the agent answers with something else",
    "twice": "a tool has its effect twice",
    "request": "`on_request` raises",
    "door": "`authorize` lets everybody in",
    "lost": "jobs are not done",
    "late": "the grace period is a minute longer than it should be",
}
DOORS = 1100
FULL = 180.0
"""Seconds of a run that opens all the sockets and tries all the doors."""


async def attack(given: argparse.Namespace, folder: Path) -> list[Findings]:
    """Run the attacks that were chosen, two or three at a time; those that measure memory alone."""
    share, half = min(1.0, given.seconds / FULL), given.seconds / 2
    seed, fault = given.seed, given.fault
    chosen = {name for name in given.only.split(",") if name}

    rounds: Sequence[dict[str, Callable[[], Awaitable[Findings]]]] = (
        {
            "frames": lambda: attack_frames(folder / "frames", seed, half, fault),
            "requests": lambda: attack_requests(folder / "requests", seed, half, fault),
            "doors": lambda: attack_doors(folder / "doors", seed, max(40, round(DOORS * share)), fault),
        },
        {
            "kills": lambda: attack_with_kills(folder / "kills", seed, half, fault),
            "stops": lambda: attack_with_stops(folder / "stops", seed, half, fault),
        },
        {"sockets": lambda: attack_with_sockets(share)},
    )
    found: list[Findings] = []
    for each in rounds:
        found += await asyncio.gather(*(run() for name, run in each.items() if name in chosen))
    return found


def report(found: Sequence[Findings], seed: int, seconds: float) -> str:
    """Return the table with the command that repeats it, as the docs have it."""
    when = datetime.now(UTC).strftime("%d %B %Y").lstrip("0")
    head = f"everyword {__version__}, {when}, `make attack ARGS='--seed {seed}'`, {seconds:,.0f} seconds:"
    return f"{head}\n\n{render(list(found))}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks; print the table and what went wrong."""
    given = _parser().parse_args(arguments)
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(10**6)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of writing to sockets that the server has closed
    print(f"attacking with seed {given.seed} …", flush=True)
    began = time.monotonic()
    folder = Path(given.keep or tempfile.mkdtemp(prefix="attack-"))
    found = asyncio.run(attack(given, folder))
    told = report(found, given.seed, time.monotonic() - began)
    print(told)
    if given.markdown:
        Path(given.markdown).write_text(told, encoding="utf-8")
    problems = [problem for each in found for problem in each.problems]
    for problem in problems[:SHOWN]:
        print(f"- {problem}")
    if problems:
        print(f"{len(problems)} problems. Repeat with --seed {given.seed}; logs and stores are in {folder}")
    elif not given.keep:
        shutil.rmtree(folder)
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    add = parser.add_argument
    add("--seconds", type=float, default=FULL, help="how long to attack, roughly (default: %(default)s)")
    add("--seed", type=int, help="the plan of an earlier run")
    add("--only", default=",".join(ATTACKS), help="attacks to run, with commas between (default: %(default)s)")
    add("--markdown", metavar="FILE", help="where to write the table")
    add("--keep", metavar="FOLDER", help="where to leave logs and stores")
    add("--fault", choices=FAULTS, default="", help="a bug to seed into the served app, which must be reported")
    return parser


if __name__ == "__main__":
    sys.exit(main())
