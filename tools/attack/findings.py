"""What was tried, how often, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Findings", "Row", "render"]

SHOWN = 20
"""Problems of one row that are printed in full."""


@dataclass
class Row:
    """One line of the table."""

    attack: str
    what: str
    count: int = 0
    problems: list[str] = field(default_factory=list)


class Findings:
    """The rows of one attack. A row exists once something was counted or blamed under its name."""

    def __init__(self, attack: str) -> None:
        self.attack = attack
        self.rows: dict[str, Row] = {}

    def row(self, what: str) -> Row:
        return self.rows.setdefault(what, Row(self.attack, what))

    def count(self, what: str, count: int = 1) -> None:
        self.row(what).count += count

    def blame(self, what: str, problem: str) -> None:
        """Note something that must not happen."""
        self.row(what).problems.append(problem)

    @property
    def problems(self) -> list[str]:
        return [f"{self.attack}, {row.what}: {problem}" for row in self.rows.values() for problem in row.problems]


def render(findings: list[Findings]) -> str:
    """Return the table as Markdown, with columns of equal width so that it can be read in a terminal as well."""
    lines = [("attack", "what was tried", "count", "what went wrong")]
    for each in findings:
        rows = each.rows.values()
        lines += [(each.attack, row.what, f"{row.count:,}", f"{len(row.problems):,}") for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(4)]
    texts = [_line(line, widths) for line in lines]
    rule = f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|{'-' * (widths[2] + 1)}:|{'-' * (widths[3] + 1)}:|"
    return "\n".join([texts[0], rule, *texts[1:]])


def _line(cells: tuple[str, str, str, str], widths: list[int]) -> str:
    attack, what, count, wrong = cells
    left = f"| {attack:<{widths[0]}} | {what:<{widths[1]}} "
    return f"{left}| {count:>{widths[2]}} | {wrong:>{widths[3]}} |"
