"""Regenerating and editing while an answer runs: every page shows the old answer or the new one, never both (R-5)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import Tab

pytestmark = pytest.mark.browser

OLD: list[Any] = ["One ", {"gate": "first"}, "two ", {"gate": "second"}, "three, ", {"echo": "count"}]
"""An answer that stands still twice, and says at its end which call of the agent it is."""


def _change(tab: Tab, how: str) -> None:
    if how == "edit":
        tab.ask(["New ", "words, ", {"echo": "count"}], messageId=tab.ids[0])
    else:
        tab.call("regenerate")


def _until_taken(tab: Tab, questions: int) -> None:
    """Wait until the server has accepted what this tab has asked."""
    tab.until_sent("cf_agent_use_chat_request", questions)
    tab.run("() => window.agent.call('nothing').catch(() => null)")  # answered behind it


def _assert_never_both(*tabs: Tab) -> None:
    """Expect that no screen had two answers in a row."""
    for tab in tabs:
        screens = [[role for _, role in screen] for screen in tab.seen("screens")]
        assert any("assistant" in roles for roles in screens)
        for roles in screens:
            assert ("assistant", "assistant") not in pairwise(roles), tab.seen("screens")


@pytest.mark.parametrize("how", ["regenerate", "edit"])
@pytest.mark.parametrize("who", ["watcher", "asker"])
def test_a_change_of_mind_shows_the_old_answer_or_the_new_one_and_never_both(
    chat: Conversation, how: str, who: str
) -> None:
    asker, watcher, third = chat.tab(), chat.tab(), chat.tab()
    asker.ask(OLD)
    for each in (asker, watcher, third):
        each.until_answer("One ")
    changing = watcher if who == "watcher" else asker
    _change(changing, how)
    _until_taken(changing, 2 if changing is asker else 1)
    late = chat.tab()
    chat.open("first")
    for each in (asker, third):  # the page goes on: it is not frozen until the old answer is over
        each.until_answer("One two ")
    chat.open("second")
    ending = "New words, 2" if how == "edit" else "One two three, 2"
    for each in (asker, watcher, third, late):
        each.until_answer(ending)
        each.until_ready()
    assert_in_step(chat, asker, watcher, third, late)
    assert len(chat.stored) == 2
    _assert_never_both(asker, watcher, third, late)


@pytest.mark.parametrize("who", ["watcher", "asker"])
def test_an_edit_of_the_first_question_while_a_later_one_is_answered_shows_one_branch_at_a_time(
    chat: Conversation, who: str
) -> None:
    asker, watcher = chat.tab(), chat.tab()
    asker.ask("before")
    asker.until_answer("You said: before", status="ready")
    asker.ask(OLD)
    asker.until_answer("One ")
    asker.reload()  # now it reads the answer as one that it takes up again
    for each in (asker, watcher):
        each.until_answer("One ")
    changing = watcher if who == "watcher" else asker
    _change(changing, "edit")
    _until_taken(changing, 1 if changing is watcher else 3)
    chat.open("first")
    asker.until_answer("One two ")
    chat.open("second")
    for each in (asker, watcher):
        each.until_answer("New words, 3")
        each.until_ready()
    assert_in_step(chat, asker, watcher)
    assert len(chat.stored) == 2
    _assert_never_both(asker, watcher)


@pytest.mark.parametrize("how", ["regenerate", "edit"])
@pytest.mark.parametrize("who", ["watcher", "asker"])
def test_chunks_that_cross_the_change_of_mind_bring_no_second_answer(chat: Conversation, how: str, who: str) -> None:
    link = chat.link()
    asker, watcher = (chat.tab(link=link if who == each else None) for each in ("asker", "watcher"))
    changing, other = (watcher, asker) if who == "watcher" else (asker, watcher)
    asker.ask(OLD)
    for each in (asker, watcher):
        each.until_answer("One ")
    link.freeze()
    chat.open("first")
    other.until_answer("One two ")
    _change(changing, how)
    changing.until("c.messages.length === 1")
    link.thaw()
    _until_taken(changing, 2 if changing is asker else 1)
    crossed = [way for way, text in changing.frames if "use_chat_request" in text or r"delta\":\"two " in text]
    assert crossed[-1] == "←", "the chunk came after the question was sent"
    if changing is watcher:  # the chunk has brought the old answer back, and it is gone again
        changing.until("c.messages.length === 1 && c.status === 'submitted'")
    chat.open("second")
    ending = "New words, 2" if how == "edit" else "One two three, 2"
    for each in (asker, watcher):
        each.until_answer(ending)
        each.until_ready()
    assert_in_step(chat, asker, watcher)
    _assert_never_both(asker, watcher)
