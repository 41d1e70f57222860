"""Draw a turn's life from the transitions table, into docs/protocol.md.

`python -m tools.diagram` prints the drawing, `--write` puts it between the page's markers, `--check` fails
when the page shows another one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from everyword.core.transitions import TRANSITIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "protocol.md"
BEGIN = "<!-- generated from everyword.core.transitions by tools/diagram.py: begin -->"
END = "<!-- generated: end -->"

Table = Mapping[Any, Mapping[Any, Enum]]


def draw(table: Table = TRANSITIONS) -> str:
    """Return the table as a Mermaid state diagram; events that lead the same way share an arrow."""
    lines = ["stateDiagram-v2"]
    for status, rows in table.items():
        arrows: dict[Enum, list[str]] = {}
        for event, after in rows.items():
            arrows.setdefault(after, []).append(event.__struct_config__.tag)
        start = status.value if status else "[*]"
        lines += [f"    {start} --> {after.value}: {', '.join(tags)}" for after, tags in arrows.items()]
        if status and set(arrows) <= {status}:
            lines.append(f"    {start} --> [*]")
    return "\n".join(lines)


def embed(page: str, drawing: str) -> str:
    """Return the page with the drawing between its markers; raises ValueError where they are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"unable to place the drawing; the page lacks {BEGIN!r} or {END!r}")
    return f"{before}{BEGIN}\n```mermaid\n{drawing}\n```\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    drawing = draw()
    if not arguments:
        print(drawing)
        return 0
    page = PAGE.read_text(encoding="utf-8")
    fresh = embed(page, drawing)
    if "--write" in arguments:
        PAGE.write_text(fresh, encoding="utf-8")
    elif fresh != page:
        print("docs/protocol.md shows an old diagram; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
