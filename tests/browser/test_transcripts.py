"""What becomes of the conversation: regenerate, edit, several questions at once, stale tabs, setMessages."""

from __future__ import annotations

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step, half_answered, user
from tests.browser.stock_page import NETWORK, TEXT, Tab

pytestmark = pytest.mark.browser


def _ask(tab: Tab, text: str) -> None:
    tab.ask(text)
    tab.until_answer(f"You said: {text}", status="ready")


def test_regenerating_replaces_the_answer_in_every_tab(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(["answer ", {"echo": "count"}])
    tab.until_answer("answer 1", status="ready")
    tab.call("regenerate")
    for each in (tab, other):
        each.until_answer("answer 2")
        each.until_ready()
    assert chat.calls[1]["trigger"] == "regenerate-message"
    assert len(chat.calls[1]["texts"]) == 1
    assert_in_step(chat, tab, other)
    assert len(tab.texts) == 2


def test_regenerating_an_earlier_answer_branches_there(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(["answer ", {"echo": "count"}])
    tab.until_answer("answer 1", status="ready")
    _ask(tab, "more")
    tab.call("regenerate", {"messageId": tab.ids[1]})
    for each in (tab, other):
        each.until_answer("answer 3")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(tab.texts) == 2
    tab.reload()
    tab.until_answer("answer 3", status="ready")


def test_regenerating_after_a_failure_shows_the_new_answer(chat: Conversation) -> None:
    tab = chat.tab()
    tab.ask(["Half ", {"fail": "no luck"}])
    tab.until_status("error")
    tab.call("regenerate")
    tab.until("c.status === 'error' && seen.calls.filter(([name]) => name === 'error').length === 2")
    assert tab.error == "no luck"
    assert_in_step(chat, tab)
    assert len(tab.texts) == 2


def test_an_edited_question_takes_the_place_of_the_old_one(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    _ask(tab, "one")
    _ask(tab, "two")
    tab.ask("one, but better", messageId=tab.ids[0])
    for each in (tab, other):
        each.until_answer("You said: one, but better")
        each.until_ready()
    assert tab.texts == ["one, but better", "You said: one, but better"]
    assert chat.calls[-1]["texts"] == ["one, but better"]
    assert_in_step(chat, tab, other)
    tab.reload()
    tab.until_connected()
    assert_in_step(chat, tab)


@pytest.mark.parametrize("how", ["edit", "regenerate"])
def test_a_change_of_mind_while_the_answer_streams_is_answered_in_the_end(chat: Conversation, how: str) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask([HALF, {"gate": "mid"}, "count ", {"echo": "count"}])
    for each in (tab, other):
        each.until_answer(HALF)
    if how == "edit":
        tab.ask("never mind", messageId=tab.ids[0])
    else:
        tab.call("regenerate")
    tab.run("() => window.agent.call('nothing').catch(() => null)")  # answered once the question was accepted
    chat.open("mid")
    ending = "You said: never mind" if how == "edit" else f"{HALF}count 2"
    for each in (tab, other):
        each.until_answer(ending)
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(tab.texts) == 2


def test_an_edit_after_a_stop_is_answered_and_wins(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.stop()
    tab.until_status("ready")
    tab.ask("never mind", messageId=tab.ids[0])
    for each in (tab, other):
        each.until_answer("You said: never mind")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(tab.texts) == 2


def test_a_second_question_from_the_same_tab_waits_for_its_turn(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.ask("second")
    other.until("c.messages.some(m => m.parts[0]?.text === 'second')")
    chat.open("mid")
    for each in (tab, other):
        each.until_answer("You said: second")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert tab.texts[1:] == [WHOLE, "second", "You said: second"]
    assert chat.calls[1]["texts"][1] == WHOLE


def test_a_second_question_from_the_other_tab_waits_for_its_turn(chat: Conversation) -> None:
    first, second = half_answered(chat, tabs=2)
    second.ask("second")
    first.until("c.messages.some(m => m.parts[0]?.text === 'second')")
    chat.open("mid")
    for tab in (first, second):
        tab.until_answer("You said: second")
        tab.until_ready()
    assert_in_step(chat, first, second)
    assert first.texts[1:] == [WHOLE, "second", "You said: second"]
    assert second.error is None


def test_questions_from_both_tabs_at_once_are_both_answered(chat: Conversation) -> None:
    first, second = chat.tab(), chat.tab()
    first.ask("left")
    second.ask("right")
    for tab in (first, second):
        tab.until("c.messages.length === 4")
        tab.until_ready()
    assert_in_step(chat, first, second)
    assert sorted(first.texts) == sorted(["left", "You said: left", "right", "You said: right"])


def test_a_stale_tab_that_sends_loses_nothing_of_what_it_missed(chat: Conversation) -> None:
    link = chat.link()
    stale, fresh = chat.tab(link=link), chat.tab()
    stale.expect_complaints(NETWORK)
    _ask(stale, "one")
    fresh.until_answer("You said: one")
    link.cut()
    stale.until("window.agent.readyState !== 1")
    _ask(fresh, "two")
    stale.ask("three")
    link.restore()
    for tab in (stale, fresh):
        tab.until_answer("You said: three")
        tab.until_ready()
    assert fresh.texts == ["one", "You said: one", "two", "You said: two", "three", "You said: three"]
    assert_in_step(chat, stale, fresh)


def test_a_frozen_tab_that_sends_appends_to_what_there_is(chat: Conversation) -> None:
    link = chat.link()
    stale, fresh = chat.tab(link=link), chat.tab()
    _ask(stale, "one")
    fresh.until_answer("You said: one")
    link.freeze()
    _ask(fresh, "two")
    stale.ask("three")
    link.thaw()
    for tab in (stale, fresh):
        tab.until_answer("You said: three")
        tab.until_ready()
    assert fresh.texts == ["one", "You said: one", "two", "You said: two", "three", "You said: three"]
    assert_in_step(chat, stale, fresh)


@pytest.mark.obligation("003-31", "003-50")
@pytest.mark.parametrize("form", ["array", "function"])
def test_a_question_added_with_set_messages_is_stored_and_shown_everywhere(chat: Conversation, form: str) -> None:
    tab, other = chat.tab(), chat.tab()
    _ask(tab, "one")
    added = user("u-added", "added")
    script = {
        "array": "added => { window.chat.setMessages([...window.chat.messages, added]); }",
        "function": "added => { window.chat.setMessages(before => [...before, added]); }",
    }
    tab.run(script[form], added)
    for each in (tab, other):
        each.until("c.messages.at(-1)?.id === 'u-added'")
    assert tab.texts == ["one", "You said: one", "added"]
    assert_in_step(chat, tab, other)
    assert len(chat.calls) == 1


def test_set_messages_cannot_delete_or_invent_what_the_server_has(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    _ask(tab, "one")
    other.until_answer("You said: one")
    lie = {"id": "lie", "role": "assistant", "parts": [{"type": "text", "text": "I never said that"}]}
    for messages in ([], [lie]):
        tab.run("messages => { window.chat.setMessages(messages); }", messages)
        tab.until_answer("You said: one", status="ready")
    assert_in_step(chat, tab, other)


# What is answered of three questions, of which two came while the first was being answered.
POLICIES = {
    "latest": [WHOLE, "You said: beta"],
    "merge": [WHOLE, "You said: alpha\n\nbeta"],
    "drop": [WHOLE],
    "patient": [WHOLE, "You said: beta"],
}


@pytest.mark.parametrize("kind", list(POLICIES))
def test_every_policy_for_questions_at_once_leaves_all_tabs_in_step(chat: Conversation, kind: str) -> None:
    chat.kind = kind
    tab, other = half_answered(chat, tabs=2)
    tab.ask("alpha")
    tab.until_sent("cf_agent_use_chat_request", 2)
    other.ask("beta")
    other.until_sent("cf_agent_use_chat_request")
    if kind == "drop":
        for each in (tab, other):
            each.until_told("skipped")
    else:
        tab.until("c.messages.some(m => m.parts[0].text?.endsWith('beta'))")
    chat.open("mid")
    for each in (tab, other):
        each.until(
            f"c.messages.filter(m => m.role === 'assistant').map(m => {TEXT}).join('|') === arg",
            "|".join(POLICIES[kind]),
        )
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert tab.error is other.error is None
