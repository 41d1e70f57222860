"""Runs of tests against copies of the source that have a bug."""

from __future__ import annotations

import compileall
import importlib.util
import itertools
import os
import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.forked_processes import ForkedProcess, fork_process
from tests.mutants.bug import Bug
from tests.mutants.places import make
from tests.mutants.witness import KNOWN, LAST_WORD

__all__ = ["Trials", "Verdict"]

ROOT: Final = Path(__file__).resolve().parents[2]

TIMEOUT: Final = 60
"""Seconds that a witness may take."""


@dataclass(frozen=True)
class Verdict:
    """How a witness ended: the exit code of pytest, and its output."""

    code: int
    said: str


class Trials:
    """Runs the witnesses of bugs, two at a time: a test that finds a bug by waiting in vain is idle for seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compiled = folder / "src"
        shutil.copytree(ROOT / "src", self._compiled, ignore=shutil.ignore_patterns("__pycache__"))
        assert compileall.compile_dir(self._compiled, quiet=1)
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="trial")
        self._started: dict[str, Future[Verdict]] = {}
        self._numbers = itertools.count(1)
        self._nursery = threading.Lock()  # it answers one request at a time

    def start(self, bug: Bug) -> None:
        """Begin to run the bug's witness, unless it runs already."""
        if bug.name not in self._started:
            self._started[bug.name] = self._executor.submit(self._run, bug)

    def verdict(self, bug: Bug) -> Verdict:
        """Return how the bug's witness ended."""
        self.start(bug)
        return self._started.pop(bug.name).result()

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)

    def _run(self, bug: Bug) -> Verdict:
        folder = self._folder / f"{next(self._numbers)}"
        try:
            self._plant(bug, folder / "src")
            child = self._start_witness(bug, folder / "src")
            said = child.read(until=LAST_WORD)
            child.kill()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        _, found, code = said.rpartition(LAST_WORD)
        assert found, f"the witness broke instead of failing\n{said[-2000:]}"
        return Verdict(int(code), said)

    def _plant(self, bug: Bug, folder: Path) -> None:
        """Copy the source to `folder` with the bug in it. Files without the bug are shared."""
        changed = make(bug.where, bug.change, self._compiled / "everyword")
        shutil.copytree(self._compiled, folder, copy_function=os.link)
        target = folder / "everyword" / changed.path
        target.unlink()
        target.write_text(changed.text, encoding="utf-8")
        Path(importlib.util.cache_from_source(str(target))).unlink(missing_ok=True)  # a .sql has none

    def _start_witness(self, bug: Bug, folder: Path) -> ForkedProcess:
        with self._nursery:
            return fork_process("tests.mutants.witness", str(folder), bug.witness, str(TIMEOUT), preload=KNOWN)
