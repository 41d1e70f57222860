"""Named SQL: `sql/queries.sql`, cut at its `-- name:` lines."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["SQL", "many_rows", "parse_statements", "read_statements"]

_HEADER = "-- name: "


def parse_statements(text: str) -> dict[str, str]:
    """Return name → statement. What stands before the first name is a preface, and dropped."""
    found: dict[str, str] = {}
    for block in f"\n{text}".split(f"\n{_HEADER}")[1:]:
        name, _, body = block.partition("\n")
        assert name not in found, f"two statements are named {name!r}"
        found[name] = body.strip().removesuffix(";")
    return found


@cache
def many_rows(insert: str, count: int) -> str:
    """Return the insert of one row, `… VALUES (?1, …)`, as one of so many rows, their values one after the other."""
    head, values, row = insert.partition(" VALUES ")
    columns = row.count("?")
    return head + values + ", ".join([f"({', '.join('?' * columns)})"] * count)


def read_statements(name: str) -> dict[str, str]:
    """Return the statements of one of our files."""
    return parse_statements((files(__package__) / "sql" / name).read_text(encoding="utf-8"))


SQL = read_statements("queries.sql")
