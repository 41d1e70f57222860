"""`kill -9`: the page loses nothing and reconnects by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK, Tab
from tests.browser.test_tools import BERN, LOCATE, REFUND, until_tool

pytestmark = [pytest.mark.browser, pytest.mark.crash]


def _tab(chat: Conversation, **options: Any) -> Tab:
    tab = chat.tab(**options)
    tab.expect_complaints(NETWORK)
    return tab


def test_a_sentence_cut_off_by_a_kill_is_finished_by_itself_in_one_message(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab, other = _tab(mortal), _tab(mortal)
    tab.ask(TALK)
    for each in (tab, other):
        each.until_answer(HALF)
    ids = tab.ids
    killable_server.restart()
    mortal.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE)
        each.until_ready()
        assert each.ids == ids
        assert each.error is None
    assert [made["attempt"] for made in mortal.calls] == [2]
    assert_in_step(mortal, tab, other)
    tab.reload()
    tab.until_answer(WHOLE, status="ready")


def test_a_server_killed_before_the_first_word_answers_after_the_restart(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal)
    tab.ask([{"gate": "start"}, *TALK])
    mortal.until_reached("start")
    killable_server.restart()
    mortal.open("start")
    mortal.open("mid")
    tab.until_answer(WHOLE, status="ready")
    assert tab.error is None
    assert_in_step(mortal, tab)


def test_a_question_that_waits_survives_a_kill_and_is_answered_in_its_turn(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab, other = _tab(mortal), _tab(mortal)
    tab.ask(TALK)
    for each in (tab, other):
        each.until_answer(HALF)
    other.ask("second")
    tab.until("c.messages.some(m => m.parts[0]?.text === 'second')")
    killable_server.restart()
    mortal.open("mid")
    for each in (tab, other):
        each.until_answer("You said: second")
        each.until_ready()
    assert_in_step(mortal, tab, other)
    assert tab.texts[1:] == [WHOLE, "second", "You said: second"]


def test_a_page_reloaded_while_the_server_was_dead_finds_the_partial_and_then_the_rest(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal)
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.close()
    killable_server.restart()
    fresh = _tab(mortal)
    fresh.until_answer(HALF)
    mortal.open("mid")
    fresh.until_answer(WHOLE, status="ready")
    assert_in_step(mortal, fresh)


def test_two_kills_in_one_answer_still_make_one_message(mortal: Conversation, killable_server: KillableServer) -> None:
    tab = _tab(mortal)
    tab.ask(["One ", {"gate": "first"}, "two ", {"gate": "second"}, "three."])
    tab.until_answer("One ")
    killable_server.restart()
    mortal.open("first")
    tab.until_answer("One two ")
    killable_server.restart()
    mortal.open("second")
    tab.until_answer("One two three.", status="ready")
    assert_in_step(mortal, tab)
    assert len(tab.texts) == 2


def test_an_answer_whole_at_the_kill_is_there_and_the_next_question_is_answered(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal)
    tab.ask("before")
    tab.until_answer("You said: before", status="ready")
    killable_server.restart()
    tab.ask("after")
    tab.until_answer("You said: after", status="ready")
    assert_in_step(mortal, tab)
    assert tab.texts[0] == "before"


def test_a_stop_asked_for_while_the_server_is_dead_is_honoured(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal)
    tab.ask(TALK)
    tab.until_answer(HALF)
    killable_server.kill()
    tab.until("window.agent.readyState !== 1")
    tab.stop()
    killable_server.start()
    assert mortal.until_result()["status"] == "aborted"
    tab.until_answer(HALF, status="ready")
    assert_in_step(mortal, tab)


def test_a_server_told_to_stop_leaves_the_sentence_to_the_next_one(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab, other = _tab(mortal), _tab(mortal)
    tab.ask(TALK)
    for each in (tab, other):
        each.until_answer(HALF)
    killable_server.stop()
    killable_server.start()
    mortal.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE)
        each.until_ready()
        assert each.error is None
    assert_in_step(mortal, tab, other)


def test_a_page_that_does_not_resume_shows_the_whole_answer_after_a_kill(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal, resume=False)
    tab.ask(TALK)
    tab.until_answer(HALF)
    killable_server.restart()
    mortal.open("mid")
    tab.until_answer(WHOLE)
    tab.until_still()
    assert_in_step(mortal, tab)


def test_a_client_tool_called_before_a_kill_is_answered_after_it(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal)
    tab.ask(LOCATE)
    until_tool(tab, "input-available")
    tab.until_ready()
    killable_server.restart()
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    tab.until_answer("Let me see. You are in Bern.")
    tab.until_ready()
    assert_in_step(mortal, tab)
    assert len(tab.texts) == 2


def test_a_failure_is_still_told_after_a_kill(mortal: Conversation, killable_server: KillableServer) -> None:
    tab = _tab(mortal)
    tab.ask(["Half ", {"fail": "no more credit"}])
    tab.until_status("error")
    killable_server.restart()
    tab.reload()
    tab.until("c?.status === 'error' && c.error?.message === 'no more credit'")
    tab.until_answer("Half ")
    assert_in_step(mortal, tab)


def test_an_approval_asked_for_before_a_kill_can_be_given_after_it(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal)
    tab.ask(REFUND)
    until_tool(tab, "approval-requested")
    tab.until_ready()
    killable_server.restart()
    tab.until("window.agent.readyState === 1")
    tab.until_ready()
    tab.call("addToolApprovalResponse", {"id": "approval-1", "approved": True})
    tab.until_answer("One moment. It is done.")
    tab.until_ready()
    assert_in_step(mortal, tab)


def test_an_approval_given_mid_answer_survives_a_kill(mortal: Conversation, killable_server: KillableServer) -> None:
    tab = _tab(mortal)
    tab.ask([*REFUND[:3], {"gate": "mid"}, "Also: ", *REFUND[3:]])
    until_tool(tab, "approval-requested")
    tab.call("addToolApprovalResponse", {"id": "approval-1", "approved": True})
    until_tool(tab, "approval-responded")
    tab.until_received("cf_agent_message_updated")
    killable_server.restart()
    mortal.open("mid")
    tab.until_answer("One moment. Also: It is done.")
    tab.until_ready()
    assert_in_step(mortal, tab)
    assert len(tab.texts) == 2


def test_a_continuation_cut_off_by_a_kill_is_finished_in_the_same_message(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = _tab(mortal, answers={"locate": BERN})
    tab.ask([*LOCATE[:2], {"then": ["You are ", {"gate": "more"}, "in Bern."]}])
    tab.until_ends("You are ")
    killable_server.restart()
    mortal.open("more")
    tab.until_answer("Let me see. You are in Bern.")
    tab.until_ready()
    assert len(tab.texts) == 2
    assert_in_step(mortal, tab)
