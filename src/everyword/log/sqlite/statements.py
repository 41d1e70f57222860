"""Named SQL statements: `sql/queries.sql`, split at its `-- name:` lines."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

__all__ = ["SQL", "columns_of", "many_rows", "parse_statements", "read_statements"]

_HEADER = "-- name: "
_ROW = re.compile(r"(?<=VALUES )\([?\d, ]+\)")


def parse_statements(text: str) -> dict[str, str]:
    """Return the statements by name. Text before the first name is ignored."""
    found: dict[str, str] = {}
    for block in f"\n{text}".split(f"\n{_HEADER}")[1:]:
        name, _, body = block.partition("\n")
        assert name not in found, f"two statements are named {name!r}"
        found[name] = body.strip().removesuffix(";")
    return found


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
