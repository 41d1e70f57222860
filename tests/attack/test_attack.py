"""`make attack` for a moment: every attack is made, nothing goes wrong, and a bug in the served app is reported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ATTACKS = ["frames", "requests", "doors", "kills", "stops", "sockets"]

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


def attack(*arguments: str, folder: Path) -> tuple[int, list[tuple[str, str, int, int]], str]:
    """Run it with few frames, requests and kills; return its exit code, its table and all that it said."""
    command = [sys.executable, "-m", "tools.attack", "--seconds", "1", "--keep", str(folder), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    lines = re.findall(r"^\| (\w+) +\| (.+?) +\| +([\d,]+) \| +([\d,]+) \|$", done.stdout, re.MULTILINE)
    number = lambda text: int(text.replace(",", ""))  # noqa: E731
    rows = [(name, what, number(count), number(wrong)) for name, what, count, wrong in lines]
    return done.returncode, rows, done.stdout + done.stderr


def test_every_attack_is_made_and_nothing_goes_wrong(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    code, rows, said = attack("--seed", "1", "--markdown", str(table), folder=tmp_path)
    assert code == 0, said
    assert list(dict.fromkeys(row[0] for row in rows)) == ATTACKS
    assert len(rows) > 40
    assert [row for row in rows if row[2] == 0 or row[3] != 0] == []
    assert table.read_text(encoding="utf-8") in said
    assert not (ROOT / "notes.txt").exists(), "what the servers leave behind is in the scratch folder"


@pytest.mark.parametrize(
    ("name", "fault", "blamed"),
    [
        ("frames", "answer", "ordinary questions afterwards, same conversation"),
        ("frames", "twice", "tools run, each once and called by the model"),
        ("requests", "request", "odd methods, paths, headers, queries"),
        ("doors", "door", "odd verdicts of `authorize`, sockets"),
        ("kills", "twice", "effects of tools, none twice"),
        ("kills", "lost", "jobs, none lost, none run again once it was done"),
        ("stops", "late", "stops with a tool that hangs in its thread"),
    ],
)
def test_a_bug_in_the_served_app_is_reported(name: str, fault: str, blamed: str, tmp_path: Path) -> None:
    code, rows, said = attack("--seed", "1", "--only", name, "--fault", fault, folder=tmp_path)
    assert code == 1, said
    assert blamed in [what for _, what, _, wrong in rows if wrong], said
    assert f"--seed 1; logs and stores are in {tmp_path}" in said
