"""Figures go into docs/performance.md by themselves, between two marks."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PAGE", "part_of", "put_part"]

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def put_part(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands between the marks of that name."""
    written = page.read_text(encoding="utf-8")
    fresh, count = _between(name).subn(lambda found: f"{found[1]}\n{text.strip()}\n{found[3]}", written)
    if count != 1:
        raise RuntimeError(f"unable to write the {name} table; {page.name} has {count} places for it")
    page.write_text(fresh, encoding="utf-8")


def part_of(name: str, page: Path = PAGE) -> str:
    """Return what stands there."""
    found = _between(name).search(page.read_text(encoding="utf-8"))
    return found[2].strip() if found is not None else ""


def _between(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: .*? -->)\n(.*?)(<!-- end of {name} -->)", re.DOTALL)
