"""The server's fields of messages reach the page, and change nothing else on it (R-37)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.messages.server_fields import SERVER_FIELDS
from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step, metadata_of, user
from tests.browser.stock_page import Tab
from tests.browser.use_chat_page import plain_tab

pytestmark = pytest.mark.browser

TIME = f"metadata?.{SERVER_FIELDS}?.time"


def times(messages: list[dict[str, Any]]) -> list[int]:
    return [message["metadata"][SERVER_FIELDS]["time"] for message in messages]


def assert_calm(tab: Tab, *orders: list[str]) -> None:
    """Expect that the page was never drawn with other messages than these, in this order, and lost no word."""
    assert tab.seen("shrinks") == []
    drawn = [[each for each in order if each] for order in tab.seen("orders")]
    assert [order for order in drawn if order] == [list(order) for order in orders]


def test_the_asking_tab_has_the_time_of_its_question_before_the_answer(chat: Conversation) -> None:
    tab = chat.tab()
    tab.until_received("cf_agent_stream_resume_none")  # a probe that is answered later makes the hook ready once more
    tab.until_still()
    tab.ask([{"gate": "first"}, *TALK])
    tab.until(f"c.messages[0]?.{TIME} > 0")
    assert [message["role"] for message in tab.messages] == ["user"]
    chat.open("first")
    tab.until_answer(HALF, status="streaming")
    tab.until(f"c.messages[1]?.{TIME} > 0")
    chat.open("mid")
    tab.until_answer(WHOLE, status="ready")
    question, answer = tab.ids
    assert_in_step(chat, tab)
    assert times(tab.messages) == times(chat.stored) == sorted(times(tab.messages))
    assert_calm(tab, [question], [question, answer])
    assert tab.seen("statuses")[-3:] == ["submitted", "streaming", "ready"]


def test_regenerating_and_editing_stay_what_they_are(chat: Conversation) -> None:
    tab = chat.tab()
    tab.ask("one")
    tab.until_answer("You said: one", status="ready")
    before = chat.stored
    tab.call("regenerate")
    tab.until(f"c.messages[1]?.id !== {before[1]['id']!r} && c.status === 'ready' && c.messages.length === 2")
    assert chat.stored[0] == before[0], "the same question, with its own fields"
    assert chat.stored[1]["id"] != before[1]["id"]
    assert_in_step(chat, tab)
    tab.call("sendMessage", {"text": "two", "messageId": before[0]["id"]})
    tab.until_answer("You said: two", status="ready")
    assert_in_step(chat, tab)
    assert tab.texts == ["two", "You said: two"]
    assert times(chat.stored)[0] > times(before)[0], "an edited question is said when it is edited"
    assert chat.stored[0]["id"] == before[0]["id"]


def test_messages_that_a_page_sets_come_back_with_their_fields(chat: Conversation) -> None:
    first, second = chat.tab(), chat.tab()
    forged = {**user("u2", "two"), "metadata": {"mine": 1, SERVER_FIELDS: {"time": 1, "author": {"id": "root"}}}}
    first.call("setMessages", [user("u1", "one"), forged])
    for tab in (first, second):
        tab.until(f"c.messages[1]?.{TIME} > 1")
    assert_in_step(chat, first, second)
    stored = chat.stored[1]["metadata"]
    assert stored == {"mine": 1, SERVER_FIELDS: {"time": stored[SERVER_FIELDS]["time"]}}
    first.ask("three")
    first.until_answer("You said: three", status="ready")
    assert metadata_of(chat.stored)[:2] == metadata_of(first.messages)[:2]
    assert_in_step(chat, first, second)


def test_a_plain_page_has_the_time_of_the_answer_at_once_and_of_its_question_when_it_is_loaded_anew(
    chat: Conversation,
) -> None:
    tab = plain_tab(chat)
    tab.ask("hello")
    tab.until_answer("You said: hello", status="ready")
    assert_in_step(chat, tab)
    tab.ask("again")
    tab.until_answer("You said: again", status="ready")
    assert tab.texts == ["hello", "You said: hello", "again", "You said: again"]
    assert times([tab.messages[1], tab.messages[3]]) == [times(chat.stored)[1], times(chat.stored)[3]]
    tab.reload()
    tab.until(f"c.messages[2]?.{TIME} > 0")
    assert times(tab.messages) == times(chat.stored)
    last = tab.ids[3]
    tab.call("regenerate")
    tab.until(f"c.messages.length === 4 && c.status === 'ready' && c.messages[3].id !== {last!r}")
    assert_in_step(chat, tab)
