"""A witness in a process of its own, which imports the mutant and has everything else imported already."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

__all__ = ["KNOWN", "LAST_WORD", "OPTIONS", "main", "run", "settle_in"]

KNOWN: Final = (
    *("pytest", "hypothesis.stateful", "httpx", "starlette.applications", "uvicorn"),
    "pydantic_ai.models.function",
)
"""What witnesses import besides everyword, which must come from the copy."""

LAST_WORD: Final = "exit code "

PLUGINS: Final = ("tests.mutants.profile", "pytest_timeout", "_hypothesis_pytestplugin", "no:cacheprovider")
OPTIONS: Final = (
    *(word for name in PLUGINS for word in ("-p", name)),
    *("-o", "addopts=", "--import-mode=importlib", "-x", "-q", "--tb=line"),
)


def main(folder: str, witness: str, timeout: str) -> None:
    """Run the witness against the source in `folder`; the last line says pytest's exit code."""
    settle_in(folder)
    run(witness, timeout)


def run(witness: str, timeout: str) -> None:
    """Run the witness; the last line says pytest's exit code."""
    os.dup2(1, 2)
    # A folder of its own: what pytest does to the one that runs share fails when another run removes folders there.
    with TemporaryDirectory(prefix="witness-", ignore_cleanup_errors=True) as folder:
        code = pytest.main([*OPTIONS, "--timeout", timeout, "--basetemp", folder, witness])
    sys.stdout.write(f"{LAST_WORD}{int(code)}\n")


def settle_in(folder: str) -> None:
    """Forget the run that asks for this one, and find the copy before anything else; so must whom it starts."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
        del os.environ[name]
    os.environ |= {
        "PYTHONPATH": os.pathsep.join([folder, os.getcwd()]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "EVERYWORD_MUTANT": folder,
        "EVERYWORD_OBLIGATIONS": str(Path(folder).parent / "obligations.json"),
        "HYPOTHESIS_PROFILE": "mutants",
        "EVERYWORD_PATIENCE": "4",
    }
    del sys.modules["tests.timeouts"]  # to be read anew
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
