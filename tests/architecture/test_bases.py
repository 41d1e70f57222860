"""What is proven of turns, crashes and recovery is proven of both base classes: the same files, parametrised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.agents.bases import BASES
from tests.architecture.tree import ROOT

SUITES = ("tests/parity/*.py", "tests/crash/*.py", "tests/agents/*recover*.py", "tests/agents/bases.py")


def named(text: str) -> set[str]:
    """Return which of the base classes a file names."""
    return {name for name in BASES if re.search(rf"\b{name}\b", text)}


@pytest.mark.obligation("001-Q4")
@pytest.mark.parametrize("suite", SUITES)
def test_no_file_of_a_shared_suite_names_one_base_class_alone(suite: str) -> None:
    files = sorted(ROOT.glob(suite))
    assert files, f"{suite} is gone"
    alone = {str(path.relative_to(ROOT)): named(path.read_text(encoding="utf-8")) for path in files}
    assert {name: bases for name, bases in alone.items() if len(bases) == 1} == {}


def test_every_suite_is_played_by_every_base_class() -> None:
    players = [path for suite in SUITES[:3] for path in ROOT.glob(suite) if _plays(path)]
    assert {path.parent.name for path in players} == {"parity", "crash", "agents"}
    assert all(re.search(r"\bBASES\b", path.read_text(encoding="utf-8")) for path in players)


def _plays(path: Path) -> bool:
    """Tell whether a test file runs agents of a base class."""
    return path.name.startswith("test_") and "answering(" in path.read_text(encoding="utf-8")


def test_a_file_that_names_one_of_them_is_found() -> None:
    assert named("class Chat(AIChatAgent): ...") == {"AIChatAgent"}
    assert named("def test_thinking(): answering(base, Chat)") == set()
