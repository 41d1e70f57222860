"""Examples leave Python's own names alone: code below an import that hides one would call something else."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

import everyword
from tests.architecture.test_docs_examples import blocks
from tests.architecture.tree import ROOT, tracked_files


def hidden(script: str) -> list[str]:
    """Return the builtins that imports of a script hide."""
    names = [
        alias.asname or alias.name
        for node in ast.walk(ast.parse(script))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    return [name for name in names if hasattr(builtins, name)]


def scripts() -> Iterator[tuple[str, str]]:
    """Yield every example: where it is, and its text."""
    for path in tracked_files():
        place = path.relative_to(ROOT)
        if path.suffix == ".md":
            for block in blocks(path.read_text(encoding="utf-8")):
                if block.language == "python":
                    yield f"{place}:{block.line}", block.text
        elif place.parts[0] == "examples" and path.suffix == ".py":
            yield str(place), path.read_text(encoding="utf-8")


def test_no_example_hides_a_builtin() -> None:
    found = list(scripts())
    assert len(found) > 80
    assert [f"{place} hides {name}" for place, text in found for name in hidden(text)] == []


def test_an_import_that_hides_a_builtin_is_found() -> None:
    assert hidden("from everyword import Agent, callable\nimport os as print") == ["callable", "print"]
    assert hidden("from everyword import callable as callable_method\nfrom everyword import Agent") == []


def test_the_name_that_hides_a_builtin_is_the_same_decorator() -> None:
    assert everyword.callable is everyword.callable_method
