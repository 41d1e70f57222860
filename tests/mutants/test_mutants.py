"""Every important test is shown to fail: a bug is put into a copy of the source, and its witness must notice."""

from __future__ import annotations

import compileall
import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.mutants.bug import Bug
from tests.mutants.catalogue import ALL
from tests.mutants.changes import replace
from tests.mutants.places import make
from tests.mutants.witness import KNOWN, LAST_WORD
from tests.nursery import born

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 60


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source, compiled, so that not every witness has to."""
    folder = tmp_path_factory.mktemp("mutants") / "src"
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(folder, quiet=1)
    return folder


def plant(bug: Bug, source: Path, folder: Path) -> None:
    """Copy the source to `folder` with the bug in it. Files without the bug are shared."""
    shutil.copytree(source, folder, copy_function=os.link)
    changed = make(bug.where, bug.change, source / "everyword")
    target = folder / "everyword" / changed.path
    target.unlink()
    target.write_text(changed.text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(target))).unlink(missing_ok=True)  # a .sql has none


def run_witness(bug: Bug, folder: Path) -> tuple[int, str]:
    """Run the bug's witness against the copy, in a process of its own; return the exit code and the output."""
    child = born("tests.mutants.witness", str(folder), bug.witness, str(TIMEOUT), knowing=KNOWN)
    said = child.read(until=LAST_WORD)
    child.kill()
    _, found, code = said.rpartition(LAST_WORD)
    assert found, f"the witness broke instead of failing\n{said[-2000:]}"
    return int(code), said


@pytest.mark.slow
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug, compiled: Path, tmp_path: Path) -> None:
    plant(bug, compiled, tmp_path / "src")
    code, said = run_witness(bug, tmp_path / "src")
    assert code == 1, f"{bug.witness} does not notice: {bug.why}\n{said[-2000:]}"
    assert re.search(r"\b[1-9]\d* failed\b", said), f"the witness broke instead of failing\n{said[-2000:]}"
    assert not re.search(r"\b[1-9]\d* errors?\b|pytest-timeout", said), (
        f"the witness broke instead of failing\n{said[-2000:]}"
    )


@pytest.mark.slow
def test_a_harmless_change_is_not_caught(compiled: Path, tmp_path: Path) -> None:
    """Otherwise a witness that fails for other reasons would catch everything."""
    witness = "tests/core/test_invariants.py::test_a_bare_stream_is_never_pruned"
    change = replace("$kind is not TurnKind.RSM", "not ($kind is TurnKind.RSM)")
    harmless = Bug("core:turn_is_prunable", "nothing", change, witness, "nothing changes for any client")
    plant(harmless, compiled, tmp_path / "src")
    code, said = run_witness(harmless, tmp_path / "src")
    assert code == 0, said[-2000:]
