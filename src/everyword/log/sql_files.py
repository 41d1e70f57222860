"""Files of SQL statements, each after a line `-- name: …`."""

from __future__ import annotations

__all__ = ["parse_statements"]

_HEADER = "-- name: "


def parse_statements(text: str) -> dict[str, str]:
    """Return the statements by name. Text before the first name is ignored."""
    found: dict[str, str] = {}
    for block in f"\n{text}".split(f"\n{_HEADER}")[1:]:
        name, _, body = block.partition("\n")
        assert name not in found, f"two statements are named {name!r}"
        found[name] = body.strip().removesuffix(";")
    return found
