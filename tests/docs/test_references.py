"""Rules, pages and files that the docs and the code refer to exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, SOURCE, read_source, read_tests, tracked_files

_DEFINED = re.compile(r"^(?:- \*\*|\| )(?P<rule>[INPR]-\d+)(?:\*\*| \|)", re.MULTILINE)
_CITED = re.compile(r"\b([INPR]-\d+)\b")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<target>[^)#\s]+)")
_FILE = re.compile(r"`(?P<file>[a-z_]+/[\w/]+\.py)(?:::\w+)?`")


def defined() -> list[str]:
    pages = [ROOT / "docs" / "rules.md", ROOT / "docs" / "protocol.md"]
    return [found["rule"] for page in pages for found in _DEFINED.finditer(page.read_text(encoding="utf-8"))]


def undefined(texts: dict[str, str]) -> list[str]:
    known = set(defined())
    return [
        f"{name} cites {rule}" for name, text in texts.items() for rule in _CITED.findall(text) if rule not in known
    ]


def pages() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def test_rules_are_numbered_without_gaps_and_once() -> None:
    for letter, count in Counter(rule[0] for rule in defined()).items():
        numbers = [int(rule[2:]) for rule in defined() if rule[0] == letter]
        assert numbers == list(range(1, count + 1)), letter


def test_every_cited_rule_is_defined() -> None:
    texts = {module.name: module.text for module in [*read_source(), *read_tests()] if module.path != Path(__file__)}
    texts |= {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages()}
    assert undefined(texts) == []


def test_a_citation_of_nothing_is_reported() -> None:
    assert undefined({"x": "# R-999: why"}) == ["x cites R-999"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = [found["target"] for found in _LINK.finditer(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def missing_files(text: str) -> list[str]:
    folders = [ROOT, ROOT / "src", SOURCE, ROOT / "tests"]
    return [name for name in _FILE.findall(text) if not any((folder / name).exists() for folder in folders)]


def test_files_that_pages_name_exist() -> None:
    # A decision may name a file that was renamed later.
    named = [page for page in pages() if page.parent.name != "decisions"]
    assert {str(page): found for page in named if (found := missing_files(page.read_text(encoding="utf-8")))} == {}


def test_a_missing_file_is_reported() -> None:
    assert missing_files("see `core/decide.py` and `core/gone.py::test_x`") == ["core/gone.py"]


def test_every_decision_and_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    folder = ROOT / "docs"
    names = [str(path.relative_to(folder)) for path in folder.rglob("*.md") if path.name != "README.md"]
    assert len(names) > 5
    assert [name for name in names if f"]({name})" not in index] == []


def test_decisions_have_the_four_parts() -> None:
    parts = ["## Context", "## Choice", "## Consequences", "## What would change our mind"]
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [path.name[:4] for path in decisions] == [f"{n:04}" for n in range(1, len(decisions) + 1)]
    for path in decisions:
        headings = re.findall(r"^## .+$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == parts, path.name


@pytest.mark.obligation("001-6.A", "001-6.B")
def test_where_the_ending_is_kept_was_weighed_and_written_down() -> None:
    page = (ROOT / "docs" / "decisions" / "0001-one-event-log-per-agent.md").read_text(encoding="utf-8")
    choice = page.partition("## Choice")[2].partition("\n## ")[0]
    assert "A terminal chunk" in choice
    assert "columns of a stream's row" in choice
    assert "one event, `turn.ended`" in choice
