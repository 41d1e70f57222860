"""The AI SDK's plain `useChat`, with its default transport and nothing of ours in the page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step, shown
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK
from tests.browser.use_chat_page import plain_tab

pytestmark = pytest.mark.browser

CALL = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "locate", "input": {"place": "here"}}
SECOND = {**CALL, "toolCallId": "c2"}
SAFE = "Something went wrong while answering. Please try again."


def test_a_question_streams_and_the_screen_ends_with_what_is_stored(chat: Conversation) -> None:
    tab = plain_tab(chat)
    tab.ask(TALK)
    tab.until_answer(HALF, status="streaming")
    chat.open("mid")
    tab.until_answer(WHOLE, status="ready")
    assert_in_step(chat, tab)
    tab.ask("again")
    tab.until_answer("You said: again", status="ready")
    assert_in_step(chat, tab)
    assert len(chat.stored) == 4


def test_a_page_that_is_reloaded_mid_stream_goes_on_and_ends_with_one_answer(chat: Conversation) -> None:
    tab = plain_tab(chat)
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.reload()
    tab.until_answer(HALF, status="streaming")
    chat.open("mid")
    tab.until_answer(WHOLE, status="ready")
    assert_in_step(chat, tab)
    assert len(chat.stored) == 2 and len(chat.calls) == 1


def test_a_page_that_is_loaded_while_nothing_runs_is_ready_at_once(chat: Conversation) -> None:
    tab = plain_tab(chat)
    tab.ask("hello")
    tab.until_answer("You said: hello", status="ready")
    tab.reload()
    tab.until_answer("You said: hello", status="ready")
    assert tab.seen("statuses") == ["ready"]
    assert tab.heard("error") == []


def test_the_stop_endpoint_ends_the_turn_and_keeps_what_was_said(chat: Conversation) -> None:
    tab = plain_tab(chat)
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.call("halt")
    tab.until_answer(HALF, status="ready")
    assert chat.until_result()["status"] == "aborted"
    assert_in_step(chat, tab)
    tab.reload()
    tab.until_answer(HALF, status="ready")


def test_leaving_the_stream_does_not_stop_the_turn(chat: Conversation) -> None:
    tab = plain_tab(chat)
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.stop()
    tab.until_answer(HALF, status="ready")
    chat.open("mid")
    assert chat.until_result()["status"] == "completed"
    tab.reload()
    tab.until_answer(WHOLE, status="ready")
    assert_in_step(chat, tab)


@pytest.mark.parametrize(
    ("step", "text"), [({"fail": "No more money."}, "No more money."), ({"crash": "secret"}, SAFE)]
)
def test_an_error_mid_stream_is_shown_with_its_public_text_beside_what_was_said(
    chat: Conversation, step: dict[str, Any], text: str
) -> None:
    tab = plain_tab(chat)
    tab.ask(["One ", "two ", step])
    tab.until_answer(HALF, status="error")
    assert tab.error == text
    tab.until_still()
    assert shown(tab.messages) == shown(chat.stored)
    tab.ask("again")
    tab.until_answer("You said: again", status="ready")
    assert_in_step(chat, tab)


def test_regenerate_replaces_the_answer(chat: Conversation) -> None:
    tab = plain_tab(chat)
    tab.ask(["This is answer ", {"echo": "count"}])
    tab.until_answer("This is answer 1", status="ready")
    tab.call("regenerate")
    tab.until_answer("This is answer 2", status="ready")
    assert_in_step(chat, tab)
    assert [call["trigger"] for call in chat.calls] == ["submit-message", "regenerate-message"]


def test_an_edited_question_is_answered_anew(chat: Conversation) -> None:
    tab = plain_tab(chat)
    tab.ask("one")
    tab.until_answer("You said: one", status="ready")
    tab.call("sendMessage", {"text": "two", "messageId": tab.ids[0]})
    tab.until_answer("You said: two", status="ready")
    assert_in_step(chat, tab)
    assert tab.texts == ["two", "You said: two"]


def test_the_body_of_the_transport_reaches_the_agent(chat: Conversation) -> None:
    tab = plain_tab(chat, body={"model": "small"})
    tab.ask([{"echo": "body"}])
    tab.until_answer('{"model":"small"}', status="ready")
    assert chat.calls[0]["body"] == {"model": "small"}


def test_a_client_tools_result_is_taken_and_the_answer_goes_on_in_the_same_message(chat: Conversation) -> None:
    tab = plain_tab(chat, tools={"locate": {"city": "Rome"}})
    tab.ask(["Where? ", CALL, SECOND, {"then": ["Found."]}])
    tab.until_answer("Where? Found.", status="ready")
    assert_in_step(chat, tab)
    assert len(chat.stored) == 2
    outputs = [part["output"] for part in tab.messages[-1]["parts"] if "toolCallId" in part]
    assert outputs == [{"city": "Rome"}] * 2
    assert [call["continuation"] for call in chat.calls] == [False, True]


def test_a_continuation_that_is_reloaded_in_its_middle_shows_every_part_once(chat: Conversation) -> None:
    tab = plain_tab(chat, tools={"locate": "Rome"})
    tab.ask(["Where? ", CALL, {"then": ["In ", {"gate": "mid"}, "Rome."]}])
    tab.until_answer("Where? In ", status="streaming")
    tab.reload()
    tab.until_answer("Where? In ", status="streaming")
    chat.open("mid")
    tab.until_answer("Where? In Rome.", status="ready")
    assert_in_step(chat, tab)
    assert len(chat.calls) == 2, "the result was not sent again"


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_persons_word_is_taken_and_the_answer_goes_on(chat: Conversation, is_approved: bool) -> None:
    chat.kind = "tooled"
    tab = plain_tab(chat)
    call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "refund", "input": {"amount": 500}}
    tab.ask(["Asking. ", call, {"then": ["Settled."]}])
    tab.until("c.messages.at(-1)?.parts.some(p => p.state === 'approval-requested') && c.status === 'ready'")
    asked = next(part for part in tab.messages[-1]["parts"] if "approval" in part)
    tab.call("addToolApprovalResponse", {"id": asked["approval"]["id"], "approved": is_approved})
    tab.until_answer("Asking. Settled.", status="ready")
    tab.until_still()
    stored = next(part for part in chat.stored[-1]["parts"] if "approval" in part)
    assert stored["state"] == ("output-available" if is_approved else "output-denied")
    assert_in_step(chat, tab)


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_word_on_an_earlier_message_is_taken_and_that_message_is_updated(
    chat: Conversation, is_approved: bool
) -> None:
    chat.kind = "tooled"
    tab = plain_tab(chat)
    call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "refund", "input": {"amount": 500}}
    tab.ask(["Asking. ", call, {"then": ["Settled."]}])
    tab.until("c.messages.at(-1)?.parts.some(p => p.state === 'approval-requested') && c.status === 'ready'")
    tab.ask(["Something ", "else."])
    tab.until_answer("Something else.", status="ready")
    orders = len(tab.seen("orders"))
    tab.call("addToolApprovalResponse", {"id": "approve-c1", "approved": is_approved})
    tab.until("c.messages[1].parts.some(p => p.state === 'approval-responded')")
    tab.call("sendMessage")
    state = "output-available" if is_approved else "output-denied"
    tab.until("c.messages[1].parts.some(p => p.state === arg) && c.status === 'ready'", state)
    assert_in_step(chat, tab)
    assert (tab.seen("orders")[orders:], len(chat.calls)) == ([], 2)
    assert next(part for part in chat.stored[1]["parts"] if "approval" in part)["state"] == state


def test_a_question_that_is_sent_with_an_approval_is_answered_after_the_call_has_run(chat: Conversation) -> None:
    chat.kind = "tooled"
    tab = plain_tab(chat)
    call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "refund", "input": {"amount": 500}}
    tab.ask(["Asking. ", call, {"then": ["Settled."]}])
    tab.until("c.messages.at(-1)?.parts.some(p => p.state === 'approval-requested') && c.status === 'ready'")
    shown_now = tab.messages
    part = next(part for part in shown_now[1]["parts"] if "approval" in part)
    part |= {"state": "approval-responded", "approval": {**part["approval"], "approved": True}}
    tab.call("setMessages", shown_now)
    tab.ask(["Something ", "else."])
    tab.until_answer("Something else.", status="ready")
    stored = next(part for part in chat.stored[1]["parts"] if "approval" in part)
    assert (stored["state"], stored["output"]) == ("output-available", "refunded 500")
    tab.reload()
    tab.until_answer("Something else.", status="ready")
    assert_in_step(chat, tab)


def test_a_connection_that_is_lost_mid_stream_is_taken_up_where_the_server_is(chat: Conversation) -> None:
    link = chat.link()
    tab = plain_tab(chat, link=link, own=True)
    tab.expect_complaints(NETWORK)
    tab.ask(TALK)
    tab.until_answer(HALF)
    link.drop()
    tab.until("c.status === 'error'")
    tab.call("resumeStream")
    tab.until_answer(HALF, status="streaming")
    chat.open("mid")
    tab.until_answer(WHOLE, status="ready")
    assert_in_step(chat, tab)


def test_an_answer_that_a_kill_cut_off_is_finished_in_the_page_that_comes_back(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = plain_tab(mortal)
    tab.expect_complaints(NETWORK)
    tab.ask(TALK)
    tab.until_answer(HALF)
    killable_server.restart()
    tab.until("c.status === 'error'")
    tab.reload()
    tab.until_answer(HALF, status="streaming")
    mortal.open("mid")
    tab.until_answer(WHOLE, status="ready")
    assert_in_step(mortal, tab)
    assert len(mortal.stored) == 2


def test_a_socket_tab_and_a_plain_tab_see_the_same_turn(chat: Conversation) -> None:
    plain, stock = plain_tab(chat), chat.tab()
    plain.ask(TALK)
    plain.until_answer(HALF)
    stock.until_answer(HALF)
    chat.open("mid")
    plain.until_answer(WHOLE, status="ready")
    stock.until_answer(WHOLE)
    assert_in_step(chat, plain, stock)


def test_a_plain_tab_that_comes_in_the_middle_of_a_socket_tabs_turn_sees_the_same(chat: Conversation) -> None:
    stock = chat.tab()
    stock.ask([*TALK, {"type": "data-note", "data": "seen"}])
    stock.until_answer(HALF)
    plain = plain_tab(chat)
    plain.until_answer(HALF, status="streaming")
    chat.open("mid")
    plain.until_answer(WHOLE, status="ready")
    stock.until_answer(WHOLE, status="ready")
    assert_in_step(chat, plain, stock)


def test_a_call_that_the_plain_tab_answers_is_settled_for_the_socket_tab_too(chat: Conversation) -> None:
    stock, plain = chat.tab(), plain_tab(chat, tools={"locate": "Rome"})
    plain.ask(["Where? ", CALL, {"then": ["Found."]}])
    plain.until_answer("Where? Found.", status="ready")
    stock.until_answer("Where? Found.")
    assert_in_step(chat, plain, stock)


def test_the_first_answer_wins_and_both_tabs_show_it(chat: Conversation) -> None:
    plain = plain_tab(chat)
    plain.ask(["Where? ", CALL, {"then": ["Found."]}])
    plain.until("c.messages.at(-1)?.parts.some(p => p.state === 'input-available') && c.status === 'ready'")
    stock = chat.tab()
    stock.until_answer("Where? ", status="ready")
    stock.call("addToolOutput", {"toolName": "locate", "toolCallId": "c1", "output": "Rome"})
    stock.until_answer("Where? Found.")
    plain.call("addToolOutput", {"tool": "locate", "toolCallId": "c1", "output": "Paris"})
    plain.until_answer("Where? Found.", status="ready")
    assert_in_step(chat, plain, stock)
    assert [part["output"] for part in plain.messages[-1]["parts"] if "toolCallId" in part] == ["Rome"]
    assert len(chat.calls) == 2


def test_a_failed_turn_looks_the_same_to_the_asking_and_a_returning_page(chat: Conversation) -> None:
    plain = plain_tab(chat)
    plain.ask(["One ", {"gate": "mid"}, "two ", {"fail": "No luck."}])
    plain.until_answer("One ")
    late = plain_tab(chat)
    late.until_answer("One ", status="streaming")
    chat.open("mid")
    for tab in (plain, late):
        tab.until_answer(HALF, status="error")
        assert tab.error == "No luck."
    assert shown(plain.messages) == shown(late.messages) == shown(chat.stored)
