"""Named SQL statements: `sql/queries.sql`, split at its `-- name:` lines."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from ..sql_files import parse_statements

__all__ = ["SQL", "columns_of", "many_rows", "read_statements"]

_ROW = re.compile(r"(?<=VALUES )\([?\d, ]+\)")


@cache
def columns_of(statement: str) -> int:
    """Return the number of values in a row of `… VALUES (?1, …) …`."""
    row = _ROW.search(statement)
    assert row is not None, "the statement has no VALUES"
    return row[0].count("?")


@cache
def many_rows(statement: str, count: int) -> str:
    """Return the statement `… VALUES (?1, …) …` for `count` rows, whose values follow each other."""
    row = f"({', '.join('?' * columns_of(statement))})"
    return _ROW.sub(", ".join([row] * count), statement, count=1)


def read_statements(name: str) -> dict[str, str]:
    """Return the statements of a file in `sql/`."""
    return parse_statements((files(__package__) / "sql" / name).read_text(encoding="utf-8"))


SQL = read_statements("queries.sql")
