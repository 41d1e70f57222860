"""An answer that goes on after a call was answered stands in one message, also while it streams (P-41)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import NETWORK, Tab
from tests.browser.test_tools import BERN, call, output, request_for, until_tool

pytestmark = pytest.mark.browser

GATED: list[Any] = [
    "Let me see. ",
    call("locate", place="here"),
    {"then": ["You are in ", {"gate": "mid"}, "Bern."]},
]
HALF = "Let me see. You are in "


def _has_had_two_answers(tab: Tab) -> bool:
    """Tell whether a screen had two answers in a row."""
    screens = [[role for _, role in screen] for screen in tab.seen("screens")]
    assert any("assistant" in roles for roles in screens)
    return any(("assistant", "assistant") in pairwise(roles) for roles in screens)


def _check_end(chat: Conversation, *tabs: Tab) -> None:
    chat.open("mid")
    for tab in tabs:
        tab.until_answer("Let me see. You are in Bern.")
        tab.until_ready()
    assert_in_step(chat, *tabs)
    assert not any(map(_has_had_two_answers, tabs))


@pytest.mark.parametrize("how", ["by itself", "from a button"])
def test_the_page_that_answers_a_call_shows_one_message_while_the_answer_goes_on(chat: Conversation, how: str) -> None:
    tab = chat.tab(answers={"locate": BERN} if how == "by itself" else {})
    other = chat.tab()
    tab.ask(GATED)
    if how == "from a button":
        until_tool(tab, "input-available")
        tab.until_ready()
        tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    for each in (tab, other):
        each.until_answer(HALF)
    _check_end(chat, tab, other)


def test_a_page_that_is_loaded_while_the_answer_goes_on_shows_one_message(chat: Conversation) -> None:
    tab = chat.tab(answers={"locate": BERN})
    tab.ask(GATED)
    tab.until_answer(HALF)
    tab.close()
    chat.tabs.remove(tab)
    late = [chat.tab(), chat.tab()]
    for each in late:
        each.until_answer(HALF)
        each.reload()
        each.until_answer(HALF)
    _check_end(chat, *late)


@pytest.mark.parametrize("who", ["answered", "watched"])
def test_a_page_that_loses_its_connection_while_the_answer_goes_on_shows_one_message(
    chat: Conversation, who: str
) -> None:
    link = chat.link()
    tab = chat.tab(answers={"locate": BERN}, link=link if who == "answered" else None)
    other = chat.tab(link=link if who == "watched" else None)
    tab.ask(GATED)
    for each in (tab, other):
        each.until_answer(HALF)
    lost = tab if who == "answered" else other
    lost.expect_complaints(NETWORK)
    lost.lose(link)
    lost.until_connected()
    lost.until_answer(HALF)
    _check_end(chat, tab, other)


def test_an_approved_call_shows_a_second_message_for_a_while_with_ai_6_alone(chat: Conversation) -> None:
    """The clients begin differently, and the server cannot tell them apart: see docs/how-to/troubleshooting.md."""
    tab = chat.tab()
    tab.ask(
        ["One moment. ", call("refund"), request_for(), {"then": [output("refunded"), "Done", {"gate": "mid"}, "."]}]
    )
    until_tool(tab, "approval-requested")
    tab.call("addToolApprovalResponse", {"id": "approval-1", "approved": True})
    tab.until("c.messages.at(-1).parts.at(-1).text === 'Done'")
    chat.open("mid")
    tab.until_answer("One moment. Done.")
    tab.until_ready()
    assert_in_step(chat, tab)
    assert _has_had_two_answers(tab) is (chat.client == "ai6")
