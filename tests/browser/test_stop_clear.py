"""Stopping an answer, and starting the conversation anew: exactly, in every tab, for good."""

from __future__ import annotations

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step, cut_off_half_way, half_answered
from tests.browser.stock_page import NETWORK

pytestmark = pytest.mark.browser


@pytest.mark.obligation("003-16", "003-52")
def test_stopping_keeps_what_was_said_and_a_reload_changes_no_word(chat: Conversation) -> None:
    tab, other = half_answered(chat, tabs=2)
    tab.stop()
    chat.until_left("mid")
    assert chat.until_result()["status"] == "aborted"
    for each in (tab, other):
        each.until_ready()
        assert each.answer == HALF
        assert each.error is None
    tab.reload()
    tab.until_answer(HALF, status="ready")
    tab.until_connected()
    assert_in_step(chat, tab, other)


@pytest.mark.parametrize("stopper", ["who asked", "who joined"])
def test_stopping_is_exact_though_words_were_on_their_way(chat: Conversation, stopper: str) -> None:
    link = chat.link()
    tab, other = chat.tab(link=link), chat.tab()
    tab.ask(["One ", {"gate": "first"}, "two ", {"gate": "second"}, "three"])
    if stopper == "who joined":
        tab.until_answer("One ")
        tab.reload()
    tab.until_answer("One ")
    link.freeze()
    chat.open("first")
    other.until_answer("One two ")
    tab.stop()
    tab.until_status("ready")
    link.thaw()
    chat.until_left("second")
    for each in (tab, other):
        each.until_answer("One two ")
        each.until_ready()
    tab.reload()
    tab.until_answer("One two ", status="ready")
    assert_in_step(chat, tab, other)


def test_stopping_after_a_reload_stops_the_turn(chat: Conversation) -> None:
    (tab,) = half_answered(chat)
    tab.reload()
    tab.until_answer(HALF, status="streaming")
    tab.stop()
    chat.until_left("mid")
    tab.until_answer(HALF, status="ready")
    assert chat.until_result()["status"] == "aborted"
    assert_in_step(chat, tab)


def test_stopping_from_a_tab_that_joined_by_loading_stops_the_turn_in_both(chat: Conversation) -> None:
    (first,) = half_answered(chat)
    second = chat.tab()
    second.until_answer(HALF, status="streaming")
    second.stop()
    chat.until_left("mid")
    for tab in (first, second):
        tab.until_answer(HALF, status="ready")
    assert_in_step(chat, first, second)


def test_stopping_in_a_tab_that_only_watched_changes_nothing(chat: Conversation) -> None:
    """The stock client has no request id there and sends nothing; a tab that joined by loading can stop."""
    first, second = chat.tab(), chat.tab()
    first.ask(TALK)
    second.until_answer(HALF)
    second.stop()
    second.until_still()
    chat.open("mid")
    for tab in (first, second):
        tab.until_answer(WHOLE)
        tab.until_ready()
    assert second.sent("cf_agent_chat_request_cancel") == []
    assert_in_step(chat, first, second)


def test_stopping_before_the_first_word_leaves_the_question_alone(chat: Conversation) -> None:
    tab = chat.tab()
    tab.ask([{"gate": "start"}, *TALK])
    chat.until_reached("start")
    tab.stop()
    chat.until_left("start")
    tab.until_ready()
    assert chat.until_result()["status"] == "aborted"
    tab.ask("again")
    tab.until_answer("You said: again", status="ready")
    assert_in_step(chat, tab)


def test_stopping_while_the_network_is_down_takes_effect_when_it_is_back(chat: Conversation) -> None:
    tab, link = cut_off_half_way(chat)
    tab.stop()
    link.restore()
    chat.until_left("mid")
    tab.until_answer(HALF, status="ready")
    assert chat.until_result()["status"] == "aborted"
    assert_in_step(chat, tab)


def test_stopping_a_question_that_waits_never_asks_the_agent(chat: Conversation) -> None:
    first, second = half_answered(chat, tabs=2)
    second.ask("waiting")
    second.until_status("submitted")
    first.until("c.messages.some(m => m.parts[0]?.text === 'waiting')")
    second.stop()
    second.until_status("ready")
    chat.open("mid")
    for tab in (first, second):
        tab.until("c.messages.some(m => m.parts.some(p => p.text === arg))", WHOLE)
        tab.until_ready()
    assert len(chat.calls) == 1
    assert_in_step(chat, first, second)


def test_a_new_question_after_a_stop_is_answered(chat: Conversation) -> None:
    (tab,) = half_answered(chat)
    tab.stop()
    tab.until_status("ready")
    tab.ask("next")
    tab.until_answer("You said: next", status="ready")
    assert tab.texts[1] == HALF
    assert_in_step(chat, tab)


@pytest.mark.obligation("003-28", "003-51")
def test_clearing_empties_every_tab_and_the_store(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask("one")
    tab.until_answer("You said: one", status="ready")
    other.until_answer("You said: one")
    tab.call("clearHistory")
    for each in (tab, other):
        each.until("c.messages.length === 0")
        each.reload()
        each.until_connected()
        assert each.texts == []
    assert chat.stored == []


@pytest.mark.parametrize("clearer", ["who asked", "who watches", "who joined"])
def test_clearing_during_a_stream_brings_nothing_back(chat: Conversation, clearer: str) -> None:
    asking, watching = half_answered(chat, tabs=2)
    if clearer == "who joined":
        watching.reload()
        watching.until_answer(HALF, status="streaming")
    (asking if clearer == "who asked" else watching).call("clearHistory")
    chat.until_left("mid")
    chat.open("mid")
    for tab in (asking, watching):
        tab.until("c.messages.length === 0")
        tab.until_ready()
    assert chat.stored == []
    asking.ask("fresh start")
    for tab in (asking, watching):
        tab.until_answer("You said: fresh start")
        tab.until_ready()
        assert tab.error is None
        assert_in_step(chat, tab)
        assert len(tab.texts) == 2


def test_clearing_before_the_first_word_brings_nothing_back(chat: Conversation) -> None:
    asking, watching = chat.tab(), chat.tab()
    asking.ask([{"gate": "start"}, *TALK])
    chat.until_reached("start")
    watching.until("c.messages.length === 1")
    watching.call("clearHistory")
    chat.until_left("start")
    chat.open("start")
    for tab in (asking, watching):
        tab.until("c.messages.length === 0")
        tab.until_ready()
    asking.reload()
    asking.until_connected()
    assert asking.texts == []
    assert chat.stored == []


def test_clearing_with_a_question_waiting_answers_nothing_of_it(chat: Conversation) -> None:
    first, second = chat.tab(), chat.tab()
    first.ask(TALK)
    for tab in (first, second):
        tab.until_answer(HALF)
    second.ask("waiting")
    first.until("c.messages.some(m => m.parts[0]?.text === 'waiting')")
    first.call("clearHistory")
    chat.until_left("mid")
    for tab in (first, second):
        tab.until("c.messages.length === 0")
        tab.until_ready()
    assert_in_step(chat, first, second)
    assert chat.stored == []
    assert len(chat.calls) == 1


def test_a_question_right_after_a_clear_is_the_first_of_the_new_conversation(chat: Conversation) -> None:
    first, second = chat.tab(), chat.tab()
    first.ask(TALK)
    for tab in (first, second):
        tab.until_answer(HALF)
    first.run("() => { window.chat.clearHistory(); window.chat.sendMessage({text: 'anew'}); }")
    for tab in (first, second):
        tab.until_answer("You said: anew")
        tab.until_ready()
    assert_in_step(chat, first, second)
    assert len(first.texts) == 2


def test_a_page_that_was_away_mid_stream_during_a_clear_is_empty_when_it_is_back(chat: Conversation) -> None:
    link = chat.link()
    away, other = chat.tab(link=link), chat.tab()
    away.expect_complaints(NETWORK)
    away.ask(TALK)
    for tab in (away, other):
        tab.until_answer(HALF)
    link.cut()
    away.until("window.agent.readyState !== 1")
    other.call("clearHistory")
    chat.until_left("mid")
    link.restore()
    away.until("c.messages.length === 0")
    away.until_ready()
    assert_in_step(chat, away, other)
    assert away.error is None


def test_a_page_that_was_away_while_another_tab_stopped_shows_what_was_kept(chat: Conversation) -> None:
    link = chat.link()
    away = chat.tab(link=link)
    away.expect_complaints(NETWORK)
    away.ask(TALK)
    away.until_answer(HALF)
    joined = chat.tab()
    joined.until_answer(HALF, status="streaming")
    link.cut()
    away.until("window.agent.readyState !== 1")
    joined.stop()
    chat.until_left("mid")
    link.restore()
    for tab in (away, joined):
        tab.until_answer(HALF, status="ready")
        assert tab.error is None
    assert_in_step(chat, away, joined)


def test_a_page_that_was_away_during_a_clear_is_empty_when_it_is_back(chat: Conversation) -> None:
    link = chat.link()
    away, other = chat.tab(link=link), chat.tab()
    away.expect_complaints(NETWORK)
    away.ask("one")
    away.until_answer("You said: one", status="ready")
    other.until_answer("You said: one")
    link.cut()
    away.until("window.agent.readyState !== 1")
    other.call("clearHistory")
    other.until("c.messages.length === 0")
    link.restore()
    away.until("c.messages.length === 0")
    away.until_ready()
    assert chat.stored == []
