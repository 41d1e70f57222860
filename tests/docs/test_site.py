"""The site: made from the pages as they are, with all of them in its navigation, built strictly, loading nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site import DOCS, OUTSIDE, ROOT, build, faults, navigation, prepare


def index() -> str:
    return (DOCS / "README.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [page for _, pages in navigation(index()) for page in pages]
    there = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page != DOCS / "README.md"]
    assert sorted(listed) == sorted([*there, *OUTSIDE.values()])


def test_the_navigation_is_the_index() -> None:
    text = (
        "# x\n\n## One\n\n| page | for |\n|---|---|\n| [a](a.md) | b |\n| [c](../CHANGELOG.md) | d |\n\n## None\n\nx\n"
    )
    assert navigation(text) == [("One", ["a.md", "changelog.md"])]


def test_links_that_leave_the_docs_lead_to_copies() -> None:
    taken: set[Path] = set()
    text = "[a](../../LICENSE) [b](../../CHANGELOG.md#x) [c](../rules.md) [d](../../examples) [e](https://x.org)"
    made = prepare(text, DOCS / "how-to" / "x.md", Path("how-to/x.md"), taken)
    assert made == "[a](../files/LICENSE) [b](../changelog.md#x) [c](../rules.md) d [e](https://x.org)"
    assert taken == {ROOT / "LICENSE"}


def test_lists_are_indented_for_the_generator_and_code_is_not() -> None:
    text = "- a\n  b\n  - c\n\n```python no-run\n# no-run: why not\nif x:\n  pass\n```\n"
    made = prepare(text, DOCS / "x.md", Path("x.md"), set())
    assert made == "- a\n    b\n    - c\n\n```python\n# no-run: why not\nif x:\n  pass\n```\n"


def test_what_leads_nowhere_and_what_comes_from_elsewhere_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a><a href="b.html#gone">x</a><a href="c.html">x</a>')
    (tmp_path / "b.html").write_text('<p id="there"><script src="https://cdn.example/x.js"></script><img src="no.png">')
    assert list(faults(tmp_path)) == [
        "a.html leads to b.html#gone; there is no such heading",
        "a.html leads to c.html, which is not there",
        "b.html loads https://cdn.example/x.js",
        "b.html leads to no.png, which is not there",
    ]


@pytest.mark.slow
def test_the_site_can_be_built(tmp_path: Path) -> None:
    site = build(tmp_path)
    assert "Everyword" in (site / "reference" / "everyword.html").read_text(encoding="utf-8")
    assert (site / "images" / "kill-9.gif").stat().st_size < 400_000
    first = (site / "index.html").read_text(encoding="utf-8")
    assert "<title>Documentation - everyword</title>" in first and 'rel="icon" href="./icon.svg"' in first
