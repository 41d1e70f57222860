"""The list of obligations is whole, and tests claim only what is on it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, Module, parse_module, read_tests
from tools.obligations import Tally, read_page, report

EXPECTED = {
    *(f"000-9.{n}" for n in range(1, 8)),
    *("000-3.a", "000-4.a", "000-4.b", "000-4.c", "000-4.d", "000-5.a", "000-5.b", "000-5.1"),
    *("000-5.2.A", "000-5.2.B", "000-5.2.C", "000-5.2.D", "000-6.1", "000-6.2", "000-6.3", "000-7.a"),
    *("000-8.a", "000-8.1", "000-8.2", "000-Q1", "000-Q2", "000-Q3", "000-Q4", "000-Q5"),
    *("001-2.a", "001-2.b", "001-2.c", "001-2.d", "001-2.e", "001-4.a", "001-4.b", "001-5"),
    *("001-6.A", "001-6.B", "001-7", "001-Q1", "001-Q2", "001-Q3", "001-Q4"),
    *(f"002-{n}" for n in range(1, 17)),
    *(f"003-{n}" for n in range(1, 57)),
    *(f"004-{n}" for n in range(1, 40)),
}


def claims(modules: Iterable[Module]) -> list[tuple[str, object]]:
    """Return (where, argument) of every obligation marker; an argument that is no literal is None."""
    return [
        (f"{module.name}:{node.lineno}", argument.value if isinstance(argument, ast.Constant) else None)
        for module in modules
        for node in module.nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "obligation"
        for argument in node.args or [ast.Constant(value="(none)")]
    ]


def bare_markers(modules: Iterable[Module]) -> list[str]:
    """Find markers that are not called: they claim nothing, whatever their author meant."""
    found = []
    for module in modules:
        called = {id(node.func) for node in module.nodes() if isinstance(node, ast.Call)}
        for node in module.nodes():
            if isinstance(node, ast.Attribute) and node.attr == "obligation" and id(node) not in called:
                found.append(f"{module.name}:{node.lineno}")
    return found


def test_the_page_lists_exactly_the_157_obligations() -> None:
    assert len(EXPECTED) == 157
    assert set(read_page()) == EXPECTED


def test_tests_claim_known_obligations_only() -> None:
    assert [claim for claim in claims(read_tests()) if claim[1] not in EXPECTED] == []
    assert bare_markers(read_tests()) == []


def test_an_unknown_or_missing_id_is_seen() -> None:
    text = "@pytest.mark.obligation('999-1')\ndef f(): ...\n@pytest.mark.obligation()\ndef g(): ..."
    assert [value for _, value in claims([parse_module(text, "core.test_x")])] == ["999-1", "(none)"]
    assert len(bare_markers([parse_module("@pytest.mark.obligation\ndef f(): ...", "core.test_x")])) == 1


def test_an_id_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| `002-1` | one |\n| `002-1` | two |\n", encoding="utf-8")
    with pytest.raises(ValueError, match="002-1 is listed twice"):
        read_page(page)


def test_one_failing_parameter_leaves_an_obligation_open() -> None:
    tally = Tally()
    tally.record("test_a[memory]", ["002-1", "002-2"], passed=True)
    tally.record("test_a[sqlite]", ["002-1"], passed=False)
    assert tally.proven == {"002-2"}
    text = report({"002-1": "first", "002-2": "second", "002-3": "third"}, tally)
    assert text.splitlines()[0] == "1 of 3"
    assert "second" not in text
    assert "test_a[sqlite]" in text
    assert "third" in text


def test_a_saved_tally_reads_back_the_same(tmp_path: Path) -> None:
    tally = Tally()
    tally.record("test_a", ["002-1"], passed=True)
    tally.record("test_b", ["002-2"], passed=False)
    tally.save(tmp_path / "record.json")
    assert Tally.load(tmp_path / "record.json") == tally
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


SAMPLE = """
import pytest

@pytest.mark.obligation("002-1", "002-2")
def test_passes(): assert True

@pytest.mark.obligation("002-2")
def test_fails(): assert not True

@pytest.mark.obligation("002-3")
@pytest.mark.parametrize("n", [1, 2])
def test_fails_once(n): assert n == 1

@pytest.fixture
def broken_at_the_end():
    yield
    raise RuntimeError("at the end")

@pytest.mark.obligation("002-4")
def test_breaks_at_the_end(broken_at_the_end): assert True

def test_claims_nothing(): assert True
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_records_what_its_passing_tests_prove(workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = obligation(*ids)\n", encoding="utf-8")
    record = tmp_path / "record.json"
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-n", workers, "."],
        cwd=tmp_path,
        env={**outside, "PYTHONPATH": str(ROOT), "EVERYWORD_OBLIGATIONS": str(record)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "obligations: 1 of 157 proven in this run" in ran.stdout, ran.stdout + ran.stderr
    assert Tally.load(record).proven == {"002-1"}
    assert sorted(json.loads(record.read_text(encoding="utf-8"))["failed"]) == ["002-2", "002-3", "002-4"]
