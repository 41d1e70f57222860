"""Count which obligations a passing test proves, and list the open ones.

`docs/obligations.md` is the list. A test claims some with `@pytest.mark.obligation("000-9.1", …)`; every test
run records what it proved in `.stamps/obligations.json`, or where EVERYWORD_OBLIGATIONS says
(see tests/conftest.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "obligations.md"
RECORD = ROOT / ".stamps" / "obligations.json"

_LINE = re.compile(r"^\| `(?P<id>[0-9]{3}-[0-9A-Za-z.]+)` \| (?P<text>.+?) \|$", re.MULTILINE)


def read_page(page: Path = PAGE) -> dict[str, str]:
    """Return id → wording, in the page's order; raises ValueError when an id is listed twice."""
    listed: dict[str, str] = {}
    for line in _LINE.finditer(page.read_text(encoding="utf-8")):
        if line["id"] in listed:
            raise ValueError(f"unable to read {page.name}; {line['id']} is listed twice")
        listed[line["id"]] = line["text"]
    return listed


@dataclass
class Tally:
    """What one test run said about obligations.

    An obligation is proven when a test that carries it passed and none that carries it failed: one parameter
    of a matrix that fails leaves the obligation open.
    """

    passed: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)

    def record(self, test: str, ids: Sequence[str], *, passed: bool) -> None:
        into = self.passed if passed else self.failed
        for each in ids:
            into.setdefault(each, []).append(test)

    @property
    def proven(self) -> set[str]:
        return set(self.passed) - set(self.failed)

    def save(self, path: Path | None = None) -> None:
        path = path or Path(os.environ.get("EVERYWORD_OBLIGATIONS") or RECORD)
        path.parent.mkdir(exist_ok=True)
        text = json.dumps({"passed": self.passed, "failed": self.failed}, indent=1, sort_keys=True)
        # Two runs may end at the same moment; a rename leaves one whole record, never a mixture.
        scratch = path.with_suffix(f".{id(self):x}.tmp")
        scratch.write_text(text + "\n", encoding="utf-8")
        scratch.replace(path)

    @classmethod
    def load(cls, path: Path) -> Tally:
        saved: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(passed=saved["passed"], failed=saved["failed"])


def report(listed: Mapping[str, str], tally: Tally) -> str:
    """Say how many are proven, which tests fail, and what is open, one line each."""
    proven = [each for each in listed if each in tally.proven]
    lines = [f"{len(proven)} of {len(listed)}"]
    failing = [each for each in listed if each in tally.failed]
    if failing:
        lines += ["", "failing:"]
        lines += [f"  {each:<10} {test}" for each in failing for test in tally.failed[each]]
    if open_ones := [each for each in listed if each not in tally.proven]:
        lines += ["", "open:"]
        lines += [f"  {each:<10} {listed[each]}" for each in open_ones]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run the tests that carry the marker, then print the report; fails when one of them fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "obligation", *arguments]
    # A record of our own: another run in the same tree must not answer for this one.
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "obligations.json"
        environment = {**os.environ, "EVERYWORD_OBLIGATIONS": str(record)}
        ran = subprocess.run(command, cwd=ROOT, env=environment, check=False, stdin=subprocess.DEVNULL)
        if not record.exists():
            print("unable to count; the test run left no record (see the output above)", file=sys.stderr)
            return ran.returncode or 1
        tally = Tally.load(record)
    print(report(read_page(), tally))
    nothing_collected = 5
    return 0 if ran.returncode in (0, nothing_collected) else ran.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
