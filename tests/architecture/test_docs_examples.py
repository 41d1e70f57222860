"""What the docs show works: Python blocks run, commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from everyword.cli.parser import COMMANDS
from tests.architecture.tree import ROOT, tracked_files

PATIENCE = 60


@dataclass(frozen=True)
class Block:
    """A fenced block: its first content line in the page, what the fence says, and the text."""

    line: int
    language: str
    flags: tuple[str, ...]
    text: str


_FENCE = re.compile(r"^```(?P<says>[^\n`]*)\n(?P<text>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> Iterator[Block]:
    for fence in _FENCE.finditer(page):
        language, *flags = fence["says"].split() or [""]
        line = page.count("\n", 0, fence.start("text")) + 1
        yield Block(line, language, tuple(flags), fence["text"])


def script_of(page: str) -> str:
    """Join the page's Python blocks into one script whose line numbers are the page's."""
    script = ""
    for block in blocks(page):
        if block.language == "python" and "no-run" not in block.flags:
            script += "\n" * (block.line - 1 - script.count("\n")) + block.text
    return script


def unexplained(page: str) -> list[int]:
    """Return the lines of `no-run` blocks whose first line is not a comment with the reason."""
    return [
        block.line
        for block in blocks(page)
        if "no-run" in block.flags and not re.match(r"# no-run: \S+ \S+", block.text)
    ]


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Yield (program, subcommand) of every `make …` and `everyword …` in console blocks and inline code."""
    for block in blocks(page):
        if block.language in {"console", "sh", "bash"}:
            yield from re.findall(r"(?:^|[$;&|]\s*)(make|everyword)\s+([a-z-]+)", block.text, re.MULTILINE)
    yield from re.findall(r"`(make|everyword) ([a-z-]+)[^`\n]*`", page)


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE))


def cli_commands() -> set[str]:
    """Return the subcommands of the command line."""
    return set(COMMANDS)


def pages() -> list[Path]:
    found = [path for path in tracked_files() if path.suffix == ".md"]
    kept = [path for path in found if path.parent == ROOT or ROOT / "docs" in path.parents]
    assert ROOT / "README.md" in kept
    return sorted(kept)


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "page.py"
    path.write_text(script, encoding="utf-8")
    environment = {**os.environ, "PYTHONWARNINGS": "error", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, str(path)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in pages() if script_of(page.read_text("utf-8"))], ids=_name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    ran = run(script_of(page.read_text(encoding="utf-8")), tmp_path)
    assert ran.returncode == 0, f"{_name(page)} (line numbers are the page's):\n{ran.stdout}{ran.stderr}"


@pytest.mark.parametrize("page", pages(), ids=_name)
def test_examples_that_do_not_run_say_why(page: Path) -> None:
    assert unexplained(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", pages(), ids=_name)
def test_the_commands_a_page_shows_exist(page: Path) -> None:
    known = {"make": make_targets(), "everyword": cli_commands() | {"--help", "--version"}}
    shown = set(commands(page.read_text(encoding="utf-8")))
    assert sorted(f"{program} {name}" for program, name in shown if name not in known[program]) == []


def test_the_readme_shows_the_two_commands_first() -> None:
    shown = list(commands((ROOT / "README.md").read_text(encoding="utf-8")))
    assert shown[:2] == [("make", "dev"), ("make", "test")]


def test_a_broken_example_is_reported_at_its_line_in_the_page(tmp_path: Path) -> None:
    page = "# Page\n\n```python\nx = 1\n```\n\ntext\n\n```python\nassert x == 2\n```\n"
    ran = run(script_of(page), tmp_path)
    assert ran.returncode != 0
    assert "line 10" in ran.stderr


def test_a_block_left_out_without_a_reason_is_reported() -> None:
    assert unexplained("```python no-run\nx = 1\n```\n") == [2]
    assert unexplained("```python no-run\n# no-run: needs a key\nx = 1\n```\n") == []


def test_commands_are_found_in_console_blocks_and_inline() -> None:
    page = "```console\n$ make dev     # x\n$ cd x && everyword dev app.py\n```\nand `make test` too\n"
    assert list(commands(page)) == [("make", "dev"), ("everyword", "dev"), ("make", "test")]
    assert {"setup", "dev", "test", "check", "bench", "obligations", "clean"} <= make_targets()
