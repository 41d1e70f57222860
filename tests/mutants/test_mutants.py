"""Every important test is shown to fail: a bug is put into a copy of the source, and its witness must notice."""

from __future__ import annotations

import compileall
import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.mutants.catalogue import ALL
from tests.mutants.mutant import Mutant
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


def plant(mutant: Mutant, source: Path, folder: Path) -> None:
    """Copy the source to `folder` with the bug in it; what has no bug is shared."""
    shutil.copytree(source, folder, copy_function=os.link)
    target = folder / "everyword" / mutant.path
    text = target.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.path} has the text {text.count(mutant.old)} times; name it exactly"
    assert mutant.old != mutant.new
    target.unlink()
    target.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    Path(importlib.util.cache_from_source(str(target))).unlink(missing_ok=True)  # a .sql has none


def run_witness(mutant: Mutant, folder: Path) -> tuple[int, str]:
    """Run the mutant's witness against the copy, in a process of its own; return the exit code and what was said."""
    child = born("tests.mutants.witness", str(folder), mutant.witness, str(TIMEOUT), knowing=KNOWN)
    said = child.read(until=LAST_WORD)
    child.kill()
    _, found, code = said.rpartition(LAST_WORD)
    assert found, f"the witness broke instead of failing\n{said[-2000:]}"
    return int(code), said


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_seeded_bug_is_caught(mutant: Mutant, compiled: Path, tmp_path: Path) -> None:
    plant(mutant, compiled, tmp_path / "src")
    code, said = run_witness(mutant, tmp_path / "src")
    assert code == 1, f"{mutant.witness} does not notice: {mutant.why}\n{said[-2000:]}"
    assert re.search(r"\b[1-9]\d* failed\b", said), f"the witness broke instead of failing\n{said[-2000:]}"
    assert not re.search(r"\b[1-9]\d* errors?\b|pytest-timeout", said), (
        f"the witness broke instead of failing\n{said[-2000:]}"
    )


@pytest.mark.slow
def test_a_harmless_change_is_not_caught(compiled: Path, tmp_path: Path) -> None:
    """Otherwise a witness that fails for other reasons would catch everything."""
    old, witness = '"""The rules of the game.', "tests/core/test_invariants.py::test_a_bare_stream_is_never_pruned"
    harmless = Mutant("core/__init__.py", old, '"""The rules.', witness, "nothing changes for anybody")
    plant(harmless, compiled, tmp_path / "src")
    code, said = run_witness(harmless, tmp_path / "src")
    assert code == 0, said[-2000:]


def test_every_mutant_says_why_it_matters_and_names_a_test_that_exists() -> None:
    for mutant in ALL:
        file, *_, name = mutant.witness.split("::")
        # Every store's test file inherits the tests of the contract.
        paths = (file, "tests/log/contract.py", "tests/log/states.py")
        texts = [(ROOT / path).read_text(encoding="utf-8") for path in paths]
        assert any(f"def {name.partition('[')[0]}(" in text for text in texts), mutant.witness
        assert len(mutant.why.split()) >= 4, mutant.witness
    assert len({mutant.name for mutant in ALL}) == len(ALL)
