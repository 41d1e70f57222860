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

_ROW = re.compile(r"^\| (?P<term>[a-z ]+) \| (?P<means>.+?) \| (?P<not>.+?) \|$", re.MULTILINE)


def glossary() -> list[tuple[str, list[str]]]:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [(row["term"], re.findall(r"`(\w+)`", row["not"])) for row in _ROW.finditer(page)]
    rows = [row for row in rows if row[0] != "term"]
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
    better = {word: term for term, words in glossary() for word in words}
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
    terms = [term for term, _ in glossary()]
    assert [term for term, times in Counter(terms).items() if times > 1] == []
    assert terms == sorted(terms)


def test_no_word_is_both_a_term_and_a_synonym() -> None:
    words = Counter(word for _, synonyms_of_it in glossary() for word in synonyms_of_it)
    assert [word for word, times in words.items() if times > 1] == []
    assert {term for term, _ in glossary()} & set(words) == set()


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
