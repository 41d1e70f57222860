"""Versions of answers and questions on a page: "2 of 3", switched in one tab and seen in all, for both base classes."""

from __future__ import annotations

import pytest

from tests.architecture.tree import ROOT
from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import Tab

pytestmark = pytest.mark.browser

COUNTED = ["Answer ", {"echo": "count"}]
"""The first answer is `Answer 1`, the next `Answer 2`, and so on."""


@pytest.fixture(params=["chat", "thinker"])
def chat(request: pytest.FixtureRequest, chat: Conversation) -> Conversation:
    """A conversation with an agent of each base class."""
    chat.kind = request.param
    return chat


def until_counted(tab: Tab, *counts: str) -> None:
    """Wait until the page says of its places which of how many it shows."""
    shown = "[...document.querySelectorAll('nav')].map(n => n.textContent.replace(/[‹›]/g, ''))"
    tab.until(f"JSON.stringify({shown}) === JSON.stringify(arg)", list(counts))


def press(tab: Tab, label: str, place: int = 0) -> None:
    button = "document.querySelectorAll('nav')[place].querySelector(`[aria-label='${label}']`)"
    tab.run(f"([label, place]) => {button}.click()", [label, place])


def test_regenerated_answers_are_counted_and_shown_one_after_the_other_in_all_tabs(chat: Conversation) -> None:
    tab, other = chat.tab(versions=True), chat.tab(versions=True)
    tab.ask(COUNTED)
    for answer in ("Answer 1", "Answer 2", "Answer 3"):
        for each in (tab, other):
            each.until_answer(answer)
            each.until_ready()
        if answer != "Answer 3":
            tab.call("regenerate")
    for each in (tab, other):
        until_counted(each, "3 of 3")
    press(other, "the version before")
    for each in (tab, other):
        each.until_answer("Answer 2")
        until_counted(each, "2 of 3")
    press(tab, "the version before")
    for each in (tab, other):
        each.until_answer("Answer 1")
        until_counted(each, "1 of 3")
    assert_in_step(chat, tab, other)
    other.reload()
    other.until_answer("Answer 1")
    until_counted(other, "1 of 3")
    tab.ask("And now?")
    for each in (tab, other):
        each.until_answer("You said: And now?")
        each.until_ready()
        until_counted(each, "1 of 3")
    assert len(chat.stored) == 4
    press(tab, "the next version")
    for each in (tab, other):
        each.until_answer("Answer 2")
    assert len(chat.stored) == 2, "what followed one version does not follow the other"
    assert_in_step(chat, tab, other)


def test_an_edited_question_has_versions_of_its_own(chat: Conversation) -> None:
    tab, other = chat.tab(versions=True), chat.tab(versions=True)
    tab.ask("cats")
    tab.until_answer("You said: cats")
    tab.until_ready()
    (question, _) = tab.ids
    tab.call("sendMessage", {"text": "dogs", "messageId": question})
    for each in (tab, other):
        each.until_answer("You said: dogs")
        each.until_ready()
        until_counted(each, "2 of 2")
    press(other, "the version before")
    for each in (tab, other):
        each.until_answer("You said: cats")
        until_counted(each, "1 of 2")
    assert_in_step(chat, tab, other)


def test_what_the_how_to_page_prints_is_what_is_tested_here() -> None:
    printed = (ROOT / "docs" / "how-to" / "versions.md").read_text(encoding="utf-8")
    tested = (ROOT / "tests" / "browser" / "stock" / "version-picker.jsx").read_text(encoding="utf-8")
    assert tested.partition("\n\n")[2] in printed
