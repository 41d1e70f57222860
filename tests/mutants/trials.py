"""Runs of tests against copies of the source that have a bug."""

from __future__ import annotations

import compileall
import importlib.util
import itertools
import os
import re
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

BROKE: Final = re.compile(
    r"\b[1-9]\d* errors?\b|pytest-timeout"
    r"|NameError: |UnboundLocalError: |SyntaxError: |AttributeError: (?!'NoneType' object)"
)
"""A witness that did not find the bug, but code that cannot run: a change that was not kept up with the source."""


@dataclass(frozen=True)
class Verdict:
    """How a witness ended: the exit code of pytest, and its output."""

    code: int
    said: str

    @property
    def is_failure(self) -> bool:
        """Whether a test failed, as opposed to code that could not run."""
        return (
            self.code == 1 and re.search(r"\b[1-9]\d* failed\b", self.said) is not None and not BROKE.search(self.said)
        )


class Trials:
    """Runs the witnesses of bugs, two at a time: a test that finds a bug by waiting in vain is idle for seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compiled = folder / "src"
        shutil.copytree(ROOT / "src", self._compiled)  # with its bytecode, which need not be made again
        assert compileall.compile_dir(self._compiled, quiet=1)
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="trial")
        self._started: dict[str, Future[Verdict]] = {}
        self._numbers = itertools.count(1)
        self._fork_servers = threading.Lock()  # each answers one request at a time

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
        """Try the bug in memory first. Only a failure counts there: a witness may start processes that import anew."""
        verdict = self.run_in_memory(bug)
        return verdict if verdict.is_failure else self.run_from_source(bug)

    def run_in_memory(self, bug: Bug) -> Verdict:
        """Run the witness in a fork that has imported everything, with the bug in the function that it has.

        The exit code is `warm_witness.CANNOT_SWAP` if the bug is not in the body of a function.
        """
        record = str(self._folder / f"{next(self._numbers)}.json")
        with self._fork_servers:
            child = fork_process(
                *("tests.mutants.warm_witness", bug.name, record, str(TIMEOUT)),
                preload=(*KNOWN, "tests.mutants.warm_start"),
                imported_with=(("EVERYWORD_MUTANT", str(self._compiled)),),
            )
        return _verdict(child)

    def run_from_source(self, bug: Bug) -> Verdict:
        """Run the witness in a process that imports a copy of the source with the bug in it."""
        folder = self._folder / f"{next(self._numbers)}"
        try:
            self._plant(bug, folder / "src")
            with self._fork_servers:
                child = fork_process(
                    *("tests.mutants.witness", str(folder / "src"), bug.witness, str(TIMEOUT)), preload=KNOWN
                )
            return _verdict(child)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _plant(self, bug: Bug, folder: Path) -> None:
        """Copy the source to `folder` with the bug in it. Files without the bug are shared."""
        changed = make(bug.where, bug.change, self._compiled / "everyword")
        shutil.copytree(self._compiled, folder, copy_function=os.link)
        target = folder / "everyword" / changed.path
        target.unlink()
        target.write_text(changed.text, encoding="utf-8")
        Path(importlib.util.cache_from_source(str(target))).unlink(missing_ok=True)  # a .sql has none


def _verdict(child: ForkedProcess) -> Verdict:
    said = child.read(until=LAST_WORD)
    child.kill()
    _, found, code = said.rpartition(LAST_WORD)
    assert found, f"the witness broke instead of failing\n{said[-2000:]}"
    return Verdict(int(code), said)
