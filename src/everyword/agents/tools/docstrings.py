"""What a tool's docstring says: its description, and those of its parameters."""

from __future__ import annotations

import inspect
import itertools
import re
from typing import Any

__all__ = ["docstring_of", "first_paragraph", "parameter_descriptions"]

_ENTRIES = re.compile(r"(?:Args|Arguments|Parameters|Params):\s*|:param\b.*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
_FIELD_ENTRY = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)")


def docstring_of(function: Any) -> str:
    """Return the function's own docstring; what a callable object inherits from its class says nothing of the tool."""
    text = getattr(function, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) and inspect.isroutine(function) else ""


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a docstring, on one line."""
    lines = itertools.takewhile(lambda line: line.strip() and not _ENTRIES.fullmatch(line), text.split("\n"))
    return " ".join(line.strip() for line in lines)


def parameter_descriptions(text: str) -> dict[str, str]:
    """Return parameter → description, from an `Args:` section and from `:param name:` lines."""
    found: dict[str, str] = {}
    current, level, is_section = "", 0, False  # level: how far the entries of the section are indented
    for line in text.split("\n"):
        indent, bare = len(line) - len(line.lstrip()), line.strip()
        if entry := _FIELD_ENTRY.fullmatch(bare):
            current, level, is_section = entry["name"], indent, False
            found[current] = entry["text"]
        elif not bare or indent == 0:
            current, level, is_section = "", 0, is_section if not bare else bool(_ENTRIES.fullmatch(bare))
        elif is_section and indent <= (level or indent):
            entry = _GOOGLE_ENTRY.fullmatch(bare)
            current, level = entry["name"] if entry else "", indent
            found.update({current: entry["text"]} if entry else {})
        elif current:
            found[current] = f"{found[current]} {bare}".strip()
    return found
