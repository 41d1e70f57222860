"""Docstrings as Markdown: paragraphs as they are, sections such as `Args:` as lists."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

__all__ = ["first_sentence", "section", "to_markdown"]

_SECTION = re.compile(r"(?P<title>[A-Z][A-Za-z, ]*):")
_ITEM = re.compile(r" {4}(?P<names>[^ :][^:]*): (?P<text>.+)")
_CODE = re.compile(r"[\w.*-]+")


def first_sentence(documented: object) -> str:
    """Return the first paragraph of a docstring, on one line; an empty text if there is none."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())


def to_markdown(text: str, *, without: tuple[str, ...] = ()) -> str:
    """Return a docstring as Markdown; sections of these titles are left out."""
    pieces = []
    for title, lines in _sections(inspect.cleandoc(text)):
        if title is None:
            pieces.append("\n".join(lines).strip())
        elif title not in without:
            pieces.append(
                "\n".join([f"{title}:", "", *(f"- {_coded(names)}: {said}" for names, said in _items(lines))])
            )
    return "\n\n".join(piece for piece in pieces if piece)


def section(text: str | None, title: str) -> list[tuple[str, str]]:
    """Return the items of one section, in order: what they are about, and what is said."""
    found = [lines for each, lines in _sections(inspect.cleandoc(text or "")) if each == title]
    return [item for lines in found for item in _items(lines)]


def _sections(text: str) -> Iterator[tuple[str | None, list[str]]]:
    """Yield (title, lines) of each section, and (None, lines) of what stands between them."""
    title: str | None = None
    lines: list[str] = []
    rows = text.split("\n")
    for place, row in enumerate(rows):
        begins = _SECTION.fullmatch(row)
        follows = rows[place + 1] if place + 1 < len(rows) else ""
        if begins is not None and follows.startswith("    "):
            yield title, lines
            title, lines = begins["title"], []
        elif title is not None and row and not row.startswith("    "):
            yield title, lines
            title, lines = None, [row]
        else:
            lines.append(row)
    yield title, lines


def _items(lines: list[str]) -> Iterator[tuple[str, str]]:
    names, said = "", list[str]()
    for line in lines:
        begins = _ITEM.fullmatch(line)
        if begins is not None:
            if names:
                yield names, " ".join(said)
            names, said = begins["names"], [begins["text"].strip()]
        elif line.strip():
            said.append(line.strip())
    if names:
        yield names, " ".join(said)


def _coded(names: str) -> str:
    """Return the names of an item as code: `LogError, AgentStopped` are two."""
    return ", ".join(f"`{name}`" if _CODE.fullmatch(name) else name for name in names.split(", "))
