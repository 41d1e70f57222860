"""The stock hook's `setMessages`: taken as a whole or not at all, with and without trust in the clients (R-8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everyword.messages.server_fields import without_fields
from tests.browser.conversation import Conversation
from tests.browser.kit import WHOLE, assert_in_step, half_answered, shown, user
from tests.browser.stock_page import Tab

pytestmark = pytest.mark.browser

ADDED = user("u-added", "added")
RICH = [
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": "Let me look."},
    {"type": "reasoning-end", "id": "r", "providerMetadata": {"a": {"signature": "s"}}},
    {"type": "tool-input-available", "toolCallId": "k1", "toolName": "look", "input": {"at": 1.0}},
    {"type": "tool-output-available", "toolCallId": "k1", "output": {"degrees": 21.0}},
    {"type": "tool-input-available", "toolCallId": "k2", "toolName": "feel", "input": {}, "dynamic": True},
    {"type": "tool-output-available", "toolCallId": "k2", "output": {"half": True}, "preliminary": True},
    {"type": "tool-output-error", "toolCallId": "k2", "errorText": "too cold"},
    {"type": "source-url", "sourceId": "s", "url": "https://example.org/", "providerMetadata": {"a": {"b": 1}}},
    {"type": "data-chart", "id": "c", "data": {"points": [1.0, 2.5]}},
    {"type": "message-metadata", "messageMetadata": {"cost": 3.0}},
    "It is warm.",
]
"""An answer of which no two kinds of pages have the same copy."""


def _ask(tab: Tab, text: str) -> None:
    tab.ask(text)
    tab.until_answer(f"You said: {text}", status="ready")


def _set(tab: Tab, function: str, given: Any = None) -> None:
    """Set the messages to what a JavaScript function makes of those before and of what is given."""
    tab.run(f"given => {{ window.chat.setMessages(before => ({function})(before, given)); }}", given)


def _talk(chat: Conversation) -> tuple[Tab, Tab]:
    """Ask one question in one tab; return that tab and another that shows the same."""
    tab, other = chat.tab(), chat.tab()
    _ask(tab, "one")
    other.until_answer("You said: one", status="ready")
    return tab, other


def _answer(name: str, *parts: Any) -> dict[str, Any]:
    return {"id": name, "role": "assistant", "parts": list(parts)}


CHANGES = {
    "an answer added": "before => [...before, {...before[1], id: 'mine'}]",
    "an answer changed": "before => [before[0], {...before[1], parts: [{type: 'text', text: 'better'}]}]",
    "an answer changed and a question added": (
        "(before, added) => [before[0], {...before[1], parts: [{type: 'text', text: 'better'}]}, added]"
    ),
    "another conversation": "(before, added) => [added, {...before[1], id: 'mine'}]",
}
"""What a page may do to a list of one question and its answer."""

TAKEN = {
    "an answer added": ["one", "You said: one", "You said: one"],
    "an answer changed": ["one", "better"],
    "an answer changed and a question added": ["one", "better", "added"],
    "another conversation": ["one", "You said: one", "added", "You said: one"],  # nothing is deleted
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_list_with_the_assistants_words_changed_is_refused_as_a_whole(chat: Conversation, change: str) -> None:
    tab, other = _talk(chat)
    before, count = chat.stored, len(tab.received("cf_agent_chat_messages"))
    _set(tab, CHANGES[change], ADDED)
    tab.until_received("cf_agent_chat_messages", count + 1)
    tab.until("c.messages.length === 2")
    assert_in_step(chat, tab, other)
    assert shown(chat.stored) == shown(before)
    _ask(tab, "two")
    assert_in_step(chat, tab, other)


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_trusted_page_changes_the_assistants_words_in_every_tab(chat: Conversation, change: str) -> None:
    chat.kind = "trusting"
    tab, other = _talk(chat)
    _set(tab, CHANGES[change], ADDED)
    for each in (tab, other):
        each.until("JSON.stringify(c.messages.map(m => m.parts.at(-1).text)) === JSON.stringify(arg)", TAKEN[change])
    assert_in_step(chat, tab, other)
    assert len(chat.calls) == 1
    tab.reload()
    tab.until_connected()
    assert_in_step(chat, tab)
    _ask(tab, "two")
    assert tab.texts == [*TAKEN[change], "two", "You said: two"]
    assert chat.calls[1]["texts"] == [*TAKEN[change], "two"]
    assert_in_step(chat, tab, other)


@pytest.mark.parametrize("kind", ["chat", "trusting"])
@pytest.mark.parametrize("who", ["asked", "watched", "came later"])
def test_answers_that_a_page_resends_as_it_has_them_are_unchanged(chat: Conversation, kind: str, who: str) -> None:
    chat.kind = kind
    tab, other = chat.tab(), chat.tab()
    tab.ask(RICH)
    for each in (tab, other):
        each.until_answer("It is warm.", status="ready")
        each.until_still()
    before = chat.stored
    page = {"asked": tab, "watched": other}.get(who) or chat.tab()
    _set(page, "(before, added) => [...before, added]", ADDED)
    for each in chat.tabs:
        each.until("c.messages.at(-1)?.id === 'u-added'")
    assert [*chat.stored[:-1], without_fields(chat.stored[-1])] == [*before, ADDED]
    assert '"degrees": 21.0' in json.dumps(before)
    assert_in_step(chat, tab, other)


@pytest.mark.parametrize("kind", ["chat", "trusting"])
@pytest.mark.parametrize("who", ["asked", "watched"])
def test_a_question_that_is_added_while_an_answer_streams_costs_nothing_of_the_answer(
    chat: Conversation, kind: str, who: str
) -> None:
    chat.kind = kind
    tab, other = half_answered(chat, tabs=2)
    page = tab if who == "asked" else other
    _set(page, "(before, added) => [...before, added]", ADDED)
    (other if page is tab else tab).until("c.messages.some(m => m.id === 'u-added')")
    chat.open("mid")
    for each in (tab, other):
        each.until("c.messages.some(m => m.parts.some(p => p.text === arg))", WHOLE)
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert tab.texts[1:] == [WHOLE, "added"]


def _conversation(size: int, *, has_answers: bool) -> list[dict[str, Any]]:
    """Return a conversation of about this many bytes, with calls and data in its answers if it has any."""
    messages: list[dict[str, Any]] = []
    while len(json.dumps(messages)) < size:
        number = len(messages)
        messages.append(user(f"big-{number}", f"question {number} " + "é" * 20_000))
        if not has_answers:
            continue
        call = {"type": "tool-look", "toolCallId": f"k{number}", "state": "output-available", "input": {}, "output": 21}
        rows = {"type": "data-rows", "id": f"d{number}", "data": [{"row": row} for row in range(100)]}
        answer = {"type": "text", "text": f"answer {number} " + "x" * 200_000}
        messages.append(_answer(f"big-{number + 1}", answer, call, rows))
    return messages


@pytest.mark.parametrize(("kind", "has_answers"), [("trusting", True), ("trusting", False), ("chat", False)])
def test_a_list_of_three_megabytes_is_stored_and_shown_everywhere(
    chat: Conversation, kind: str, has_answers: bool
) -> None:
    chat.kind = kind
    tab, other = chat.tab(), chat.tab()
    wanted = _conversation(3_000_000, has_answers=has_answers)
    _set(tab, "(before, wanted) => wanted", wanted)
    for each in (tab, other):
        each.until("c.messages.at(-1)?.id === arg", wanted[-1]["id"])
    assert [without_fields(each) for each in chat.stored] == wanted
    assert_in_step(chat, tab, other)
    other.reload()
    other.until("c.messages.at(-1)?.id === arg", wanted[-1]["id"])
    _ask(tab, "one")
    assert_in_step(chat, tab, other)


def test_a_list_of_three_megabytes_with_answers_is_refused_as_a_whole_without_trust(chat: Conversation) -> None:
    tab, other = _talk(chat)
    before, count = chat.stored, len(tab.received("cf_agent_chat_messages"))
    _set(tab, "(before, wanted) => [...before, ...wanted]", _conversation(3_000_000, has_answers=True))
    tab.until_received("cf_agent_chat_messages", count + 1)
    tab.until("c.messages.length === 2")
    assert shown(chat.stored) == shown(before)
    assert_in_step(chat, tab, other)
    _ask(tab, "two")
    assert_in_step(chat, tab, other)
