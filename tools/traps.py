"""Count the traps of docs/traps.md by how we know that we are not in them, and list the open ones."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "traps.md"
TRAPS = 222

_ROW = re.compile(r"^\| (?P<number>\d+) \| (?P<text>.+?) \| (?P<shown>.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<name>test_\w+)`")
_VERDICT = re.compile(r"(?P<kind>client-side)|(?P<reasoned>n/a|open): (?P<why>\S.*)")


@dataclass(frozen=True)
class Trap:
    """One row: its number, the right behaviour, and what shows it or why nothing does."""

    number: int
    text: str
    kind: str
    """`tested`, `client-side`, `n/a` or `open`."""
    why: str = ""
    tests: tuple[tuple[str, str], ...] = ()
    """(file, function) of each test."""


def read_page(page: str) -> list[Trap]:
    """Return the rows in the page's order; raises ValueError for one that says nothing usable."""
    return [_trap(int(row["number"]), row["text"], row["shown"]) for row in _ROW.finditer(page)]


def _trap(number: int, text: str, shown: str) -> Trap:
    named = [_TEST.fullmatch(each) for each in shown.split("<br>")]
    if all(named):
        return Trap(number, text, "tested", tests=tuple((each["file"], each["name"]) for each in named if each))
    verdict = _VERDICT.fullmatch(shown)
    if verdict is None:
        raise ValueError(f"unable to read trap {number}; {shown!r} is neither tests nor a verdict with its reason")
    return Trap(number, text, verdict["kind"] or verdict["reasoned"], verdict["why"] or "")


def missing_tests(traps: Iterable[Trap], root: Path = ROOT) -> list[str]:
    """Return the named tests that do not exist."""
    named = [(trap.number, file, name) for trap in traps for file, name in trap.tests]
    return [f"trap {number}: {file}::{name}" for number, file, name in named if name not in _functions(root / file)]


@cache
def _functions(path: Path) -> frozenset[str]:
    if not path.exists():
        return frozenset()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def summary(traps: Sequence[Trap]) -> str:
    """Say in one line how many there are of each kind."""
    count = Counter(trap.kind for trap in traps)
    kinds = ", ".join(f"{kind} {count[kind]}" for kind in ("tested", "client-side", "n/a", "open"))
    return f"{kinds} of {TRAPS}"


def main() -> int:
    """Print the counts and the open ones; fails when a named test does not exist."""
    traps = read_page(PAGE.read_text(encoding="utf-8"))
    print(summary(traps))
    if open_ones := [trap for trap in traps if trap.kind == "open"]:
        print("\nopen:")
        for trap in open_ones:
            print(f"  {trap.number:>3}  {trap.text}\n       {trap.why}")
    if missing := missing_tests(traps):
        print("\nunable to find these tests:", *missing, sep="\n  ", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
