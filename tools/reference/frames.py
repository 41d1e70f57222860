"""The page about frames: the tables of docs/protocol.md, which says what they are, and the codes of closed sockets."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from pathlib import Path

from everyword.server import close_codes

__all__ = ["page"]

PROTOCOL = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"

INTRODUCTION = """\
The frames that are sent over the WebSocket of an agent, in both directions. The tables are those of the
[protocol](../protocol.md), which also says which client is sent which frame, in which order, and how clients resume."""


def page() -> list[str]:
    text = PROTOCOL.read_text(encoding="utf-8")
    lines = ["# Frames", "", INTRODUCTION]
    for title, number in (("Frames", 8), ("The handshake", 6), ("Runs of sub-agents", 11)):
        lines += ["", f"## {title}", "", _tables(_section(text, number))]
    return [*lines, "", "## Codes of closed sockets", "", "| code | what it says |", "|---|---|", *_codes()]


def _section(text: str, number: int) -> str:
    found = re.search(rf"^## {number}\. [^\n]*\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/protocol.md has no section {number}"
    return found[1]


def _tables(section: str) -> str:
    """Return the paragraphs and tables of a section without its rules, with links that lead from here."""
    blocks = [block for block in section.strip().split("\n\n") if "**P-" not in block]
    led = re.sub(r"\]\((?!https?:|#)([^)]+)\)", r"](../\1)", "\n\n".join(blocks))
    return re.sub(r"\bsection (\d+)\b", r"[section \1](../protocol.md)", led)


def _codes() -> list[str]:
    rows = []
    body = ast.parse(inspect.getsource(close_codes)).body
    for node, follows in pairwise(body):
        match node, follows:
            case (
                ast.AnnAssign(value=ast.Constant(value=int(code))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                rows.append(f"| {code} | {' '.join(text.split())} |")
    rows.append("| 4400 to 4499 | A sub-agent's parent refused, with this HTTP status: the client gives up. |")
    return rows
