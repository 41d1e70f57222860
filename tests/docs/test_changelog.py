"""The version and the changelog agree."""

from __future__ import annotations

import re

import everyword
from tests.architecture.tree import ROOT

_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)


def headings() -> list[tuple[str, str | None]]:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return [(found["name"], found["date"]) for found in _HEADING.finditer(text)]


def problems(version: str, names: list[tuple[str, str | None]]) -> list[str]:
    """Say what is wrong: Unreleased comes first, and a release has a dated section of its own."""
    found = []
    if not names or names[0][0] != "Unreleased":
        found.append("the first section must be Unreleased")
    released = names[1:]
    found += [f"{name} has no date" for name, date in released if date is None]
    ordered = sorted(released, key=lambda each: _key(each[0]), reverse=True)
    if ordered != released:
        found.append("versions must go down")
    if ".dev" not in version and (not released or released[0][0] != version):
        found.append(f"version {version} has no section, or not the newest")
    if ".dev" in version and released and _key(released[0][0]) >= _key(version.partition(".dev")[0]):
        found.append(f"{released[0][0]} is released, but the version is still {version}")
    return found


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def test_version_and_changelog_agree() -> None:
    assert problems(everyword.__version__, headings()) == []


def test_a_disagreement_is_reported() -> None:
    top: tuple[str, str | None] = ("Unreleased", None)
    assert problems("0.2.0", [top, ("0.1.0", "2030-01-01")]) != []
    assert problems("0.2.0.dev0", [top, ("0.2.0", "2030-01-01")]) != []
    assert problems("0.1.0", [("0.1.0", "2030-01-01")]) != []
    assert problems("0.1.0", [top, ("0.1.0", None)]) != []
    assert problems("0.10.0", [top, ("0.10.0", "2030-02-01"), ("0.9.0", "2030-01-01")]) == []
