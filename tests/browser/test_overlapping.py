"""Questions that are asked while an answer is being written: stock pages show the same messages in the same order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step, half_answered
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK, TEXT, Tab
from tests.browser.use_chat_page import plain_tab

pytestmark = pytest.mark.browser

FIRST = json.dumps(TALK)
LATER: list[Any] = ["Five ", {"gate": "later"}, "six."]
SECOND, THIRD = json.dumps(LATER), "third"
ALL = [FIRST, WHOLE, SECOND, "Five six.", THIRD, "You said: third"]


def until_shows(tab: Tab, *texts: str) -> None:
    """Wait until the page has exactly these messages, from top to bottom."""
    tab.until(f"JSON.stringify(c?.messages.map(m => {TEXT})) === JSON.stringify(arg)", list(texts))


def assert_over(chat: Conversation, *tabs: Tab) -> None:
    for tab in tabs:
        until_shows(tab, *ALL)
        tab.until_ready()
        assert tab.error is None
    assert [message["role"] for message in chat.stored] == ["user", "assistant"] * 3
    assert_in_step(chat, *tabs)


def test_waiting_questions_stand_behind_the_answer_that_is_being_written_in_every_tab(chat: Conversation) -> None:
    """P-44."""
    asker, watcher = chat.tab(), chat.tab()
    asker.ask(TALK)
    for tab in (asker, watcher):
        tab.until_answer(HALF)
    watcher.ask(LATER)
    until_shows(watcher, FIRST, HALF, SECOND)
    asker.ask(THIRD)
    until_shows(watcher, FIRST, HALF, SECOND, THIRD)

    late = chat.tab()
    until_shows(late, FIRST, HALF, SECOND, THIRD)
    watcher.reload()
    until_shows(watcher, FIRST, HALF, SECOND, THIRD)
    chat.open("mid")
    for tab in (watcher, late):
        until_shows(tab, FIRST, WHOLE, SECOND, "Five ", THIRD)
    last = chat.tab()
    until_shows(last, FIRST, WHOLE, SECOND, "Five ", THIRD)
    chat.open("later")
    assert_over(chat, asker, watcher, late, last)


def test_a_page_of_the_ai_sdk_that_opens_meanwhile_is_told_all_answers(chat: Conversation) -> None:
    (asker,) = half_answered(chat)
    asker.ask(LATER)
    asker.ask(THIRD)
    while len(chat.stored) < 4:
        pass
    plain = plain_tab(chat)
    until_shows(plain, FIRST, HALF, SECOND, "", THIRD)
    chat.open("mid")
    until_shows(plain, FIRST, WHOLE, SECOND, "Five ", THIRD)
    plain.reload()
    until_shows(plain, FIRST, WHOLE, SECOND, "Five ", THIRD)
    chat.open("later")
    assert_over(chat, asker, plain)


@pytest.mark.crash
def test_a_kill_changes_nothing_of_the_order(mortal: Conversation, killable_server: KillableServer) -> None:
    asker, watcher = mortal.tab(), mortal.tab()
    for tab in (asker, watcher):
        tab.expect_complaints(NETWORK)
    asker.ask(TALK)
    for tab in (asker, watcher):
        tab.until_answer(HALF)
    watcher.ask(LATER)
    until_shows(watcher, FIRST, HALF, SECOND)
    asker.ask(THIRD)
    until_shows(watcher, FIRST, HALF, SECOND, THIRD)
    killable_server.restart()
    late, plain = mortal.tab(), plain_tab(mortal)
    for tab in (watcher, late):
        until_shows(tab, FIRST, HALF, SECOND, THIRD)
    until_shows(plain, FIRST, HALF, SECOND, "", THIRD)
    mortal.open("mid")
    for tab in (watcher, late, plain):
        until_shows(tab, FIRST, WHOLE, SECOND, "Five ", THIRD)
    mortal.open("later")
    assert_over(mortal, asker, watcher, late, plain)
