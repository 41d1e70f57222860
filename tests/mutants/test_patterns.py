"""Patterns find code, and changes change it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.changes import Change, NotThere, always, before, both, drop, negate, never, replace, returns, swap
from tests.mutants.places import make, sql

CODE = '''
class Actor:
    async def commit(self, batch, other=None):
        """Commit."""
        self.check(batch, strict=True)
        if batch.first != self.head + 1 or batch.is_late:
            return [batch, *self.late]
        await self.store.append(batch, wake=None)
        self.tail.publish(batch)
        return batch if self.ok else None
'''


def changed(change: Change, tmp_path: Path, where: str = "Actor.commit") -> list[str]:
    """Return the lines that the change adds, or else those that it takes away."""
    (tmp_path / "actor.py").write_text(CODE, encoding="utf-8")
    old = [line.strip() for line in ast.unparse(ast.parse(CODE)).splitlines()]
    new = [line.strip() for line in make(where, change, tmp_path).text.splitlines()]
    return [line for line in new if line not in old] or [f"no {line}" for line in old if line not in new]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (drop("self.tail.publish(...)"), "no self.tail.publish(batch)"),
        (drop("self.store.append(...)"), "no await self.store.append(batch, wake=None)"),
        (drop("$x.is_late"), "if batch.first != self.head + 1:"),
        (drop("*self.late"), "return [batch]"),
        (drop("strict=..."), "self.check(batch)"),
        (never("$x.is_late"), "if batch.first != self.head + 1 or False:"),
        (always("self.ok"), "return batch if True else None"),
        (negate("self.ok"), "return batch if not self.ok else None"),
        (
            replace("$batch.first != $head + 1", "$batch.first <= $head"),
            "if batch.first <= self.head or batch.is_late:",
        ),
        (replace("self.check($x, ...)", "self.check(None, ...)"), "self.check(None, strict=True)"),
        (replace("wake=None", "wake=0"), "await self.store.append(batch, wake=0)"),
        (replace("self.tail.$method(...)", "self.$method(...)"), "self.publish(batch)"),
        (replace("if ... or ...: ...", "pass"), "pass"),
        (replace("batch", "other", which="first"), "self.check(other, strict=True)"),
        (before("self.store.append($batch, ...)", "self.tail.early($batch)"), "self.tail.early(batch)"),
        (returns("None"), "return None"),
        (both(drop("strict=..."), replace("self.check($x)", "self.seen($x)")), "self.seen(batch)"),
    ],
    ids=lambda value: value.text if isinstance(value, Change) else "",
)
def test_a_change_changes_what_its_pattern_finds(change: Change, expected: str, tmp_path: Path) -> None:
    assert changed(change, tmp_path) == [expected]


def test_two_statements_change_places(tmp_path: Path) -> None:
    (tmp_path / "actor.py").write_text(CODE, encoding="utf-8")
    text = make("Actor.commit", swap("await self.store.append(...)", "self.tail.publish(...)"), tmp_path).text
    assert text.index("self.tail.publish") < text.index("self.store.append")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (drop("self.tail.forget(...)"), "no longer has `self.tail.forget(...)`"),
        (drop("batch"), "has `batch` 7 times"),
        (drop("$batch.first != ... and ..."), "no longer has"),
        (replace("self.ok", "self.ok"), "is not changed"),
        (replace("self.ok", "is_fine(batch)"), "has no is_fine, which the changed code needs"),
    ],
    ids=lambda value: value.text if isinstance(value, Change) else "",
)
def test_a_change_without_its_place_says_so(change: Change, problem: str, tmp_path: Path) -> None:
    with pytest.raises(NotThere) as raised:
        changed(change, tmp_path)
    assert problem in str(raised.value)


def test_of_several_definitions_the_one_that_the_change_fits_is_meant(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "decide.py").write_text("def finish(turn):\n    return turn.end()\n", encoding="utf-8")
    (tmp_path / "wire.py").write_text("def finish(turn):\n    return turn.frame()\n", encoding="utf-8")
    assert make("finish", replace("$turn.end()", "$turn"), tmp_path).path == "core/decide.py"
    assert make("core:finish", returns("None"), tmp_path).path == "core/decide.py"
    with pytest.raises(NotThere, match=r"is in core/decide.py and wire.py; say in which"):
        make("finish", returns("None"), tmp_path)


def test_a_statement_of_sql_is_found_by_its_name_and_changed_whatever_its_white_space(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(
        "-- name: one\nSELECT a\n  FROM b;\n\n-- name: two\nSELECT a FROM b;\n", encoding="utf-8"
    )
    assert make("sql:one", sql("SELECT a FROM b", "SELECT c FROM b"), tmp_path).text.startswith(
        "-- name: one\nSELECT c FROM b;\n"
    )
