"""Nothing of the workshop is left in the product: no machine's paths, no registries' hosts, no diaries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, tracked_files

# pattern → why it has no place here
FORBIDDEN = {
    r"registry\.npmjs\.org|registry\.yarnpkg\.com|\bpypi\.org|pythonhosted\.org": "a package registry's host",
    r"(?<![\w.*-])/(?:work|root)/": "a path of somebody's machine",
    r"(?<![\w.*-])/(?:home|Users)/[a-z]": "a path of somebody's machine",
    r"(?<![\w.*-])/tmp/[a-z]": "a path of somebody's machine",
    r"/opt/(?:wheels|pypi)": "a path of somebody's machine",
    r"\bissues?\s+#?\d+\b|\(#\d{2,}\)": "an issue's number",
    r"\b(?:this|previous|last|next|earlier|another|my) session\b": "a diary; history belongs to git",
    r"\b(?:TODO|FIXME|XXX)\b": "a note to self; do it or write it down as an open obligation",
}
OURSELVES = Path(__file__).resolve()


def unwanted(files: Iterable[tuple[str, str]]) -> list[str]:
    found = []
    for name, text in files:
        for pattern, why in FORBIDDEN.items():
            for hit in re.finditer(pattern, text, re.IGNORECASE if "session" in pattern else 0):
                line = text.count("\n", 0, hit.start()) + 1
                found.append(f"{name}:{line} {hit.group()!r} is {why}")
    return found


def readable() -> list[tuple[str, str]]:
    found = []
    for path in tracked_files():
        if path.resolve() == OURSELVES:
            continue
        try:
            found.append((str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    assert len(found) > 20, "the repository's files were not found"
    return found


def test_no_file_speaks_of_the_workshop() -> None:
    assert unwanted(readable()) == []


@pytest.mark.parametrize(
    "text",
    [
        '"resolved": "https://registry.npmjs.org/x"',
        "see /work/notes.md",
        'path = "/root/x"',
        "cd /home/me",
        "fixed in issue #12",
        "fixed in issue 12",
        "as found last session",
        "# TODO later",
    ],
)
def test_an_unwanted_word_is_reported(text: str) -> None:
    assert len(unwanted([("page.md", text)])) == 1


@pytest.mark.parametrize("text", ["https://example.org/work/", "session.flush()", "a workshop", "src/root/x"])
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert unwanted([("page.md", text)]) == []
