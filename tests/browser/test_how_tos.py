"""The agents of the how-to pages, word for word as they are printed, in front of the stock hook."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.how_to_agents import NAMES
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import Tab

pytestmark = pytest.mark.browser


def calls_of(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(p["type"], p["state"]) for m in messages for p in m["parts"] if p["type"].startswith("tool-")]


def settled(chat: Conversation, text: str, *tabs: Tab) -> None:
    for tab in tabs:
        tab.until_answer(text)
        tab.until_ready()
    assert_in_step(chat, *tabs)


def test_the_tool_that_is_printed_is_called_and_shown_in_both_tabs(chat: Conversation) -> None:
    chat.kind = "shop"
    tab, other = chat.tab(), chat.tab()
    tab.ask("find_order 7")
    settled(chat, "It says: a lamp", tab, other)
    assert calls_of(other.messages) == [("tool-find_order", "output-available")]
    tab.ask("find_order 8")
    settled(chat, "It says: There is no order 8.", tab, other)


def test_the_call_that_is_printed_waits_for_a_word_and_is_made_once(chat: Conversation) -> None:
    chat.kind = "bank"
    paid: list[float] = NAMES["approval"]["paid"]
    paid.clear()
    tab, other = chat.tab(), chat.tab()
    tab.ask("5")
    settled(chat, "Done.", tab, other)
    tab.ask("500")
    for each in (tab, other):
        each.until("c?.messages.at(-1)?.parts.some(p => p.state === 'approval-requested')")
        each.until_ready()
    assert paid == [5.0]
    asked = next(p for p in other.messages[-1]["parts"] if p.get("state") == "approval-requested")
    other.call("addToolApprovalResponse", {"id": asked["approval"]["id"], "approved": True})
    settled(chat, "Done.", tab, other)
    assert paid == [5.0, 500.0]


def test_the_data_that_is_printed_is_heard_and_only_the_lasting_is_kept(chat: Conversation) -> None:
    chat.kind = "weather"
    tab, other = chat.tab(), chat.tab()
    tab.ask("How is the weather?")
    settled(chat, "In Bern it is warm.", tab, other)
    assert "asking the station" in [part["data"] for part in tab.heard("data")]
    kept = [(p["type"], p["data"]) for p in other.messages[-1]["parts"] if p["type"].startswith("data-")]
    assert kept == [("data-weather", {"status": "known", "degrees": 21}), ("data-note", "measured at noon")]
