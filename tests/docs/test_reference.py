"""The reference has every public name once, and says what the docstrings say."""

from __future__ import annotations

import pytest

from tools import reference
from tools.reference import PACKAGES, borrowed, path_of, render, ungrouped


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_one_group(package: str) -> None:
    assert ungrouped(package) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_says_what_the_docstrings_say(package: str) -> None:
    assert path_of(package).read_text(encoding="utf-8") == render(package), "run `make docs`"


def test_a_name_that_is_nowhere_or_twice_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    introduction, groups = PACKAGES["everyword.models"]
    odd = {**groups, "Failures": ("ModelFailure", "classify", "from_openai")}
    monkeypatch.setitem(reference.PACKAGES, "everyword.models", (introduction, odd))
    assert ungrouped("everyword.models") == ["failure_of", "from_openai"]


def test_members_of_the_parts_of_a_class_are_shown_with_it_and_inherited_ones_are_not() -> None:
    assert "schedule" in borrowed("everyword", "Agent")
    assert "schedule" not in borrowed("everyword", "AIChatAgent")
    assert "fork" in borrowed("everyword", "AIChatAgent")
