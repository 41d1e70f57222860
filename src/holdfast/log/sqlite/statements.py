"""Named SQL: `sql/queries.sql`, cut at its `-- name:` lines."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["SQL", "parse_statements"]

_HEADER = "-- name: "


def parse_statements(text: str) -> dict[str, str]:
    """Return name → statement. What stands before the first name is a preface, and dropped."""
    found: dict[str, str] = {}
    for block in f"\n{text}".split(f"\n{_HEADER}")[1:]:
        name, _, body = block.partition("\n")
        assert name not in found, f"two statements are named {name!r}"
        found[name] = body.strip().removesuffix(";")
    return found


SQL = parse_statements((files(__package__) / "sql" / "queries.sql").read_text(encoding="utf-8"))
