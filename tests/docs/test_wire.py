"""The page on the protocol names every frame, and every rule of it is cited by a test."""

from __future__ import annotations

import re
from pathlib import Path

from everyword.wire import parse as readers
from tests.architecture.tree import ROOT, SOURCE, read_tests

PAGE = ROOT / "docs" / "protocol.md"


def table(heading: str) -> list[str]:
    """Return the types in the first column of the table behind a line."""
    rows = PAGE.read_text(encoding="utf-8").partition(f"\n{heading}\n\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)


def uncited(rules: list[str], texts: list[str]) -> list[str]:
    cited = {rule for text in texts for rule in re.findall(r"\bP-\d+\b", text)}
    return [rule for rule in rules if rule not in cited]


def test_every_frame_that_clients_may_send_is_on_the_page_and_no_other() -> None:
    assert sorted(table("Received from clients:")) == sorted(readers._READERS)


def test_every_frame_that_we_can_send_is_on_the_page_and_no_other() -> None:
    source = (SOURCE / "wire" / "frames.py").read_text(encoding="utf-8")
    built = set(re.findall(r'"(cf_agent_\w+)"', source)) | {"rpc"}
    assert sorted(table("Sent to clients:")) == sorted(built)


def test_every_rule_is_cited_by_a_test() -> None:
    rules = re.findall(r"^- \*\*(P-\d+)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    ours = [module.text for module in read_tests() if module.path != Path(__file__)]
    assert len(rules) >= 50
    assert uncited(rules, ours) == []


def test_a_rule_that_no_test_cites_is_reported() -> None:
    assert uncited(["P-1", "P-12"], ["see P-12", "and P-13"]) == ["P-1"]
