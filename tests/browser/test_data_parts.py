"""Data parts beside the text: heard by `onData`, kept or not, replaced in place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import Tab

pytestmark = pytest.mark.browser

PROGRESS = [{"percent": 10}, {"percent": 90}]


@pytest.fixture(autouse=True)
def painter(chat: Conversation) -> None:
    chat.kind = "painter"


def heard(tab: Tab, kind: str) -> list[Any]:
    """Return what `onData` was told of one kind of part since the page was loaded."""
    return [part["data"] for part in tab.heard("data") if part["type"] == kind]


def until_heard(tab: Tab, kind: str, data: Any) -> None:
    same = "JSON.stringify(part.data) === JSON.stringify(arg[1])"
    tab.until(f"seen.calls.some(([name, part]) => name === 'data' && part.type === arg[0] && {same})", [kind, data])


def data_of(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(p["type"], p["data"]) for m in messages for p in m["parts"] if p["type"].startswith("data-")]


@pytest.mark.obligation("003-36", "003-37", "003-38", "003-39", "003-40", "003-41")
def test_data_parts_reach_every_tab_and_only_lasting_ones_are_kept(
    chat: Conversation,
) -> None:
    tab, other, third = chat.tab(), chat.tab(), chat.tab()
    tab.ask("Paint!")
    for each in (tab, other, third):
        until_heard(each, "data-progress", PROGRESS[0])
        each.until_ends("Painting slowly. ")
    third.reload()
    until_heard(third, "data-progress", PROGRESS[0])
    assert data_of(tab.messages) == [("data-picture", {"strokes": 1}), ("data-note", "first")]
    chat.open("mid")
    for each in (tab, other, third):
        until_heard(each, "data-progress", PROGRESS[1])
        each.until_answer("Painting slowly. ")
        each.until_ready()
    kept = [("data-picture", {"strokes": 2}), ("data-note", "first"), ("data-note", "second")]
    assert data_of(chat.stored) == kept, "replaced in place, added at the end, and nothing that passes"
    assert_in_step(chat, tab, other, third)
    for each in (tab, other):
        assert heard(each, "data-progress") == PROGRESS
        assert len(heard(each, "data-picture")) == 2, "the part itself, which the client then changes in place"
    assert heard(third, "data-progress")[-1] == PROGRESS[1]
    tab.reload()
    tab.until_connected()
    assert data_of(tab.messages) == kept
    assert_in_step(chat, tab)
    assert heard(tab, "data-progress") == [], "what passes is not told of an answer that has ended"
