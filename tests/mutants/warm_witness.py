"""A witness in a fork of a process that has collected it (`warm_start`): the bug is put into a function in memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from tests.mutants.catalogue import ALL, HARMLESS
from tests.mutants.code_swap import CannotSwap, swap_code
from tests.mutants.witness import LAST_WORD, run

__all__ = ["CANNOT_SWAP", "main"]

CANNOT_SWAP: Final = 71
"""The exit code if the bug is not in the body of a function: it must be in the source when that is imported."""


def main(name: str, record: str, timeout: str) -> None:
    """Run the witness of the bug with this name; the last line says pytest's exit code."""
    (bug,) = (bug for bug in (*ALL, HARMLESS) if bug.name == name)
    os.environ["EVERYWORD_OBLIGATIONS"] = record
    try:
        swap_code(bug, Path(os.environ["EVERYWORD_MUTANT"]) / "everyword")
    except CannotSwap as problem:
        sys.stdout.write(f"{problem}\n{LAST_WORD}{CANNOT_SWAP}\n")
    else:
        run(bug.witness, timeout)
