"""Every seeded bug still finds the code that it breaks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants.bug import Bug
from tests.mutants.catalogue import ALL
from tests.mutants.changes import Change, NotThere, drop
from tests.mutants.places import make, sql

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "everyword"


def problem_of(bug: Bug) -> str | None:
    """Return why the bug cannot be put into the source, and what to do about it."""
    try:
        make(bug.where, bug.change, SOURCE)
    except NotThere as problem:
        others = [each.where for each in ALL if each.witness == bug.witness and each is not bug]
        drop_it = (
            f"or drop it: the same test also finds the one in {', '.join(f'`{each}`' for each in others)}"
            if others
            else "and do not drop it: no other seeded bug shows that its test can fail"
        )
        return (
            f"The seeded bug “{bug.why}” breaks “{bug.breaks}”, but {problem}. "
            f"Bind it to the code that now upholds “{bug.breaks}”, {drop_it}. Its test is {bug.witness}."
        )
    return None


def test_every_seeded_bug_finds_its_place_and_changes_something() -> None:
    problems = [problem for bug in ALL if (problem := problem_of(bug)) is not None]
    assert not problems, "\n\n".join(problems)


def test_every_seeded_bug_says_why_it_matters_and_names_a_test_that_exists() -> None:
    for bug in ALL:
        file, *_, name = bug.witness.split("::")
        # Every store's test file inherits the tests of the contract.
        paths = (file, "tests/log/contract.py", "tests/log/states.py")
        texts = [(ROOT / path).read_text(encoding="utf-8") for path in paths]
        assert any(f"def {name.partition('[')[0]}(" in text for text in texts), bug.witness
        assert len(bug.why.split()) >= 4, bug.witness
    assert len({bug.name for bug in ALL}) == len(ALL)


def test_every_number_of_a_rule_is_in_the_rules() -> None:
    rules = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    for bug in ALL:
        for number in re.findall(r"\b[IR]-\d+\b|\bB\d\b", bug.breaks):
            assert re.search(rf"(\*\*|\| ){number}\b", rules), f"{bug.name}: {number} is no rule"


@pytest.mark.parametrize(
    ("where", "change", "said"),
    [
        ("Actor._gone", drop("self.tail.publish(...)"), "`Actor._gone` was not found"),
        ("core:is_redundant", drop("isinstance(...) or ..."), "no longer has `isinstance(...) or ...`"),
        ("sql:no_such_statement", sql("a", "b"), "`no_such_statement` was not found"),
    ],
)
def test_a_seeded_bug_without_a_place_says_what_is_missing_and_what_to_do(
    where: str, change: Change, said: str
) -> None:
    problem = problem_of(Bug(where, "I-3", change, "tests/x.py::test_x", "clients see what a crash takes back"))
    assert problem is not None
    assert said in problem
    assert "Bind it to the code that now upholds “I-3”" in problem
