"""The project's former name is only where files need it that were written under that name."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from tests.architecture.tree import ROOT, tracked_files

FORMER = "hold" + "fast"
_NAME = re.compile(rf"{FORMER[:4]}[\s_-]?{FORMER[4:]}|{FORMER[0]}{FORMER[2:5]}\b".encode(), re.IGNORECASE)

# Where the name stays → what a line with it must contain, besides the name.
DELIBERATE = {
    "tests/log/sqlite/former/": "",
    "tests/log/sqlite/test_former_name.py": "",
    "src/everyword/agents/think/output.py": r"FORMER_MARK|while the package was called",
    "src/everyword/cli/agent_file.py": r"FORMER_FORMAT|while the package was called",
    "CHANGELOG.md": "everyword",
}


def remains(files: Iterable[tuple[str, bytes]]) -> list[str]:
    """Say where the name is and should not be, in the path of a file or in its content."""
    found = []
    for name, content in files:
        rule = next((rule for place, rule in DELIBERATE.items() if name.startswith(place)), None)
        if rule is None and _NAME.search(name.encode()):
            found.append(f"{name} is named so")
        if not _NAME.search(content):
            continue
        for number, line in enumerate(content.split(b"\n"), 1):
            if _NAME.search(line) and (rule is None or not re.search(rule.encode(), line)):
                found.append(f"{name}:{number}")
    return found


def test_the_former_name_is_only_where_old_files_need_it() -> None:
    files = [(str(path.relative_to(ROOT)), path.read_bytes()) for path in tracked_files()]
    assert len(files) > 500, "the repository's files were not found"
    assert remains(files) == []


def test_each_deliberate_place_still_has_the_name() -> None:
    names = [str(path.relative_to(ROOT)) for path in tracked_files()]
    for place in [place for place in DELIBERATE if place != "CHANGELOG.md"]:
        inside = [name for name in names if name.startswith(place)]
        assert any(_NAME.search((ROOT / name).read_bytes()) for name in inside), f"{place} needs no exception"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("docs/x.md", f"pip install {FORMER}"),
        ("docs/x.md", f"class {FORMER.title()}:"),
        ("docs/x.md", f"{FORMER[:4]} {FORMER[4:]}"),
        ("src/x.py", f"{FORMER.upper()}_DB"),
        ("src/everyword/cli/agent_file.py", f"# {FORMER}"),
        ("CHANGELOG.md", f"{FORMER} is new"),
        (f"docs/{FORMER}.md", ""),
    ],
)
def test_a_remaining_name_is_reported(name: str, line: str) -> None:
    assert len(remains([(name, line.encode())])) == 1


@pytest.mark.parametrize("line", ["hold the line fast", f"everyword, until now {FORMER}"])
def test_other_words_and_the_changelog_are_left_alone(line: str) -> None:
    assert remains([("CHANGELOG.md", line.encode())]) == []
