"""The README begins without internal words, and the index names every page by its title."""

from __future__ import annotations

import re

from tests.architecture.tree import ROOT


def test_the_readme_introduces_the_project_without_internal_words() -> None:
    first_screen, picture, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition("images/kill-9.gif")
    assert picture and "pip install" in first_screen
    words = set(re.findall(r"[a-z]+", first_screen.lower()))
    assert words & {"fold", "cursor", "log", "epoch", "attempt", "turn", "projection"} == set()


def test_the_index_names_every_page_by_its_title() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(?P<title>.+?)\]\((?P<page>[^)]+\.md)\) \|", index, re.MULTILINE)
    assert len(rows) > 80
    titles = {page: _title((ROOT / "docs" / page).read_text(encoding="utf-8")) for _, page in rows}
    assert {page: title for title, page in rows} == titles


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert found is not None, "the page has no title"
    return found[1]
