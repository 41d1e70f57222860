"""Every promise of the security page names a test, and the test is there."""

from __future__ import annotations

import re

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "how-to" / "security.md"


def promises() -> list[str]:
    """Return the right-hand cells of the tables of promises."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| promise \| proven by \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [row.rstrip("| ").rpartition(" | ")[2] for table in rows for row in table.splitlines()]


def test_every_promise_names_tests_that_exist() -> None:
    cells = promises()
    assert len(cells) > 25
    missing, last = [], ""
    for cell in cells:
        named = re.findall(r"`([^`]+)`", cell)
        assert named, f"no test proves it: {cell}"
        for name in named:
            last, _, function = (name if not name.startswith("::") else last + name).partition("::")
            path = ROOT / "tests" / last
            if not path.exists() or (function and f"def {function.rpartition('::')[2]}(" not in _text(last)):
                missing.append(name)
    assert missing == []


def _text(place: str) -> str:
    """Return a test file's text, with that of the suites beside it that a class of it may inherit from."""
    folder = (ROOT / "tests" / place).parent
    return "".join(path.read_text(encoding="utf-8") for path in [*folder.glob("*.py"), *folder.parent.glob("*.py")])
