"""One word per thing: the glossary lists each term once, and the code keeps to it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.tree import ROOT, Module, parse_module, read_source

# Words that hide what a thing is; as a whole part of a function's, class's or module's name.
VAGUE = {"manager", "helper", "helpers", "util", "utils", "handler", "handlers", "info", "misc", "process"}

# Names that others chose and users know.
GIVEN = {"ResumableStreamManager", "stream_manager", "stream_manager_types", "process_chunk", "processChunk"}

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")

_TERM = re.compile(r"^## (?P<term>[a-z ]+)\n\n(?P<means>[^#|].+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (?P<not>`.+?) \| (?P<term>[a-z ]+) \|$", re.MULTILINE)


def terms() -> list[str]:
    """Return the terms that the glossary explains, in the page's order."""
    found = [entry["term"] for entry in _TERM.finditer(PAGE)]
    assert len(found) > 40, "the glossary lost its entries"
    return found


def unused_words() -> list[tuple[str, str]]:
    """Return (word that the source does not use, term to use instead)."""
    rows = [(word, row["term"]) for row in _ROW.finditer(PAGE) for word in re.findall(r"`(\w+)`", row["not"])]
    assert len(rows) > 20, "the glossary lost its table"
    return rows


def identifiers(module: Module) -> Iterator[tuple[str, int]]:
    """Yield the names that a module itself introduces: not the keys and attributes of others."""
    for node in module.nodes():
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self")):
                yield node.attr, node.lineno


def synonyms(modules: Iterable[Module]) -> list[str]:
    better = dict(unused_words())
    return [
        f"{module.name}:{line} says {name}; the word is {better[name.lstrip('_')]}"
        for module in modules
        for name, line in identifiers(module)
        if name.lstrip("_") in better
    ]


def vague_names(modules: Iterable[Module]) -> list[str]:
    found = []
    for module in modules:
        names = [(part, 1) for part in module.name.split(".")]
        for node in module.nodes():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.append((node.name, node.lineno))
        for name, line in names:
            if name not in GIVEN and (set(_words(name)) & VAGUE or name.lstrip("_").startswith("do_")):
                found.append(f"{module.name}:{line} {name} says nothing; name what it does or is")
    return found


def _words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def test_terms_are_listed_once_and_in_order() -> None:
    assert [term for term, times in Counter(terms()).items() if times > 1] == []
    assert terms() == sorted(terms())


def test_every_entry_explains_its_term() -> None:
    headings = re.findall(r"^## ([a-z ]+)$", PAGE, re.MULTILINE)
    assert headings == terms()


def test_links_inside_the_glossary_lead_to_an_entry() -> None:
    targets = set(re.findall(r"\]\(#([a-z-]+)\)", PAGE))
    assert targets - {term.replace(" ", "-") for term in terms()} == set()


def test_every_unused_word_is_listed_once_with_a_term_of_the_glossary() -> None:
    words = Counter(word for word, _ in unused_words())
    assert [word for word, times in words.items() if times > 1] == []
    assert set(terms()) & set(words) == set()
    assert {term for _, term in unused_words()} - set(terms()) == set()


def test_the_source_uses_the_glossarys_words() -> None:
    assert synonyms(read_source()) == []


def test_no_name_in_the_source_is_vague() -> None:
    assert vague_names(read_source()) == []


@pytest.mark.parametrize(
    "text", ["def f(session_id): ...", "thread_id = 1", "class A:\n  def f(self):\n    self._room_id = 1"]
)
def test_a_synonym_in_the_source_is_reported(text: str) -> None:
    assert len(synonyms([parse_module(text, "core.x")])) == 1


@pytest.mark.parametrize("text", ["class TurnManager: ...", "def do_it(): ...", "def _handler(): ..."])
def test_a_vague_name_is_reported(text: str) -> None:
    assert len(vague_names([parse_module(text, "core.x")])) == 1
    assert len(vague_names([parse_module("x = 1", "core.utils")])) == 1
    assert vague_names([parse_module("class ResumableStreamManager: ...", "agents.rsm")]) == []
