"""SQL lives in .sql files, where it can be read, explained and tried."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import pytest

from tests.architecture.tree import Module, docstring_of, parse_module, read_source

# module → why it may hold a statement in a string
ALLOWED: dict[str, str] = {
    "agents.handles.operations": "it reads the agent's own tables by `self.sql`, whatever they are",
}

_STATEMENT = re.compile(
    r"""\bSELECT\b.+\bFROM\b | \bINSERT\s+(OR\s+\w+\s+)?INTO\b | \bREPLACE\s+INTO\b | \bUPDATE\s+\S+\s+SET\b
      | \bDELETE\s+FROM\b | \bCREATE\s+(TEMP\w*\s+|UNIQUE\s+|VIRTUAL\s+)*(TABLE|INDEX|VIEW|TRIGGER)\b
      | \b(ALTER|DROP)\s+(TABLE|INDEX|VIEW|TRIGGER)\b""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def statements(modules: Iterable[Module]) -> list[str]:
    return [
        f"{module.name}:{line} holds SQL in a string; put it into a .sql file"
        for module in modules
        if module.name not in ALLOWED
        for line, text in _strings(module)
        if _STATEMENT.search(text)
    ]


def _strings(module: Module) -> Iterable[tuple[int, str]]:
    """Yield every string but docstrings; an f-string counts as one, its holes as `{}`."""
    prose = {id(found.value) for node in module.nodes() if (found := docstring_of(node))}
    inside: set[int] = set()
    for node in module.nodes():
        if isinstance(node, ast.JoinedStr):
            inside.update(id(piece) for piece in node.values)
            pieces = [str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values]
            yield node.lineno, "".join(pieces)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose | inside:
            yield node.lineno, node.value


def test_sql_statements_live_in_sql_files() -> None:
    assert statements(read_source()) == []


def test_every_allowance_for_sql_has_a_reason_and_a_module() -> None:
    names = {module.name for module in read_source()}
    assert [name for name, reason in ALLOWED.items() if name not in names or len(reason.split()) < 3] == []


@pytest.mark.parametrize(
    "text",
    [
        'x = "SELECT a FROM b"',
        'x = f"select {a} from {b} where c = 1"',
        'x = """\n  INSERT INTO t VALUES (1)"""',
        'x = "create unique index i on t (a)"',
        'x = ("UPDATE t SET a = 1 "\n     "WHERE b = 2")',
    ],
)
def test_a_statement_in_a_string_is_reported(text: str) -> None:
    assert len(statements([parse_module(text, "log.sqlite.store")])) == 1


@pytest.mark.parametrize(
    "text",
    [
        'x = "PRAGMA journal_mode = WAL"',
        'x = "unable to update the row; delete it"',
        'def f():\n  "SELECT a FROM b"',
    ],
)
def test_what_is_no_statement_is_left_alone(text: str) -> None:
    assert statements([parse_module(text, "log.sqlite.store")]) == []
